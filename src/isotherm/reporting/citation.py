"""BibTeX entries to cite, with the same content as CITATION.cff."""

PAPER = """\
@inproceedings{shang2015ccadl,
  title     = {Covariance-Controlled Adaptive {L}angevin Thermostat for Large-Scale {B}ayesian Sampling},
  author    = {Shang, Xiaocheng and Zhu, Zhanxing and Leimkuhler, Benedict and Storkey, Amos J.},
  booktitle = {Advances in Neural Information Processing Systems 28},
  year      = {2015}
}"""


def software(version: str) -> str:
    """The entry for this library."""
    return f"""\
@software{{isotherm,
  title   = {{isotherm: {{B}}ayesian sampling with noisy gradients, at the right temperature}},
  author  = {{{{The isotherm developers}}}},
  version = {{{version}}}
}}"""
