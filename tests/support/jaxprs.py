"""The operations of a function and their results, from its jaxpr."""


def intermediates(jaxpr):
    """Yield the shapes of everything computed, including nested computations."""
    for equation in jaxpr.eqns:
        yield from (v.aval.shape for v in equation.outvars if hasattr(v.aval, "shape"))
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from intermediates(inner)


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
