"""One table of samplers drives one conformance suite: a new sampler joins by one line."""

import isotherm as iso

SAMPLERS = {
    "SGLD": iso.SGLD(1e-3),
    "ModifiedSGLD-diagonal": iso.ModifiedSGLD(1e-3, iso.Diagonal()),
    "ModifiedSGLD-dense": iso.ModifiedSGLD(1e-3, iso.Dense()),
    "ModifiedSGLD-first-order": iso.ModifiedSGLD(1e-3, iso.Dense(), form="first-order"),
    "SGHMC": iso.SGHMC(1e-2, 5.0),
    "SGHMC-diagonal": iso.SGHMC(1e-2, 20.0, iso.Diagonal()),
    "SGHMC-dense": iso.SGHMC(1e-2, 20.0, iso.Dense()),
    "SGNHT": iso.SGNHT(1e-2, 5.0),
    "CCAdL-diagonal": iso.CCAdL(1e-2, 5.0, iso.Diagonal()),
    "CCAdL-dense": iso.CCAdL(1e-2, 5.0, iso.Dense()),
}
