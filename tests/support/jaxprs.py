"""The equations and intermediate values of a function, from its jaxpr."""


def equations(jaxpr, without=None):
    """Yield all equations, including those of nested computations except in primitives called `without`."""
    for equation in jaxpr.eqns:
        yield equation
        if equation.primitive.name == without:
            continue
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from equations(inner, without)


def intermediates(jaxpr):
    """Yield the shapes of everything computed, including nested computations."""
    for equation in equations(jaxpr):
        yield from (v.aval.shape for v in equation.outvars if hasattr(v.aval, "shape"))


def products(jaxpr):
    """Yield the shapes of both factors and the precision of each matrix product, including nested computations."""
    for equation in equations(jaxpr):
        if equation.primitive.name == "dot_general":
            yield tuple(v.aval.shape for v in equation.invars), equation.params["precision"]
