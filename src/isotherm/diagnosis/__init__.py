"""How far a run can be trusted, by more than its own draws: gradients at the draws, and chains of half the step."""

from isotherm.diagnosis.diagnose import diagnose as diagnose
