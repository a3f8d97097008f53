"""What a node of the syntax tree may be changed into."""

import ast
import copy
from collections.abc import Iterator, Mapping

Change = tuple[str, ast.expr | ast.stmt]  # the kind of the change, and the node that replaces the old one

_OPERATORS: Mapping[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_COMPARISONS: Mapping[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("nanmin", "nanmax"),
    ("sum", "mean"),
    ("any", "all"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("floor", "ceil"),
    ("log", "log1p"),
    ("exp", "expm1"),
    ("var", "std"),
)
_SWAPPED = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_BUILTINS = {"min", "max", "any", "all"}
_TAKEN_AWAY = {"sqrt", "abs", "square", "log", "exp", "cumsum", "sort"}  # f(x) becomes x
# Keywords of other libraries that have a default. `strict` of `zip` is left out: it only guards against mistakes.
_OPTIONAL = {
    "axis",
    "keepdims",
    "dtype",
    "side",
    "where",
    "initial",
    "reverse",
    "unroll",
    "ddof",
    "precision",
    "copy",
}


def changes(node: ast.AST, defaults: Mapping[str, set[str]]) -> Iterator[Change]:
    """Yield all changes of a node. `defaults` has the keywords with a default of each function of the library."""
    match node:
        case ast.BinOp():
            yield from _of_operation(node)
        case ast.AugAssign(op=op, value=value) if type(op) in _OPERATORS and not isinstance(value, ast.List):
            yield "operator", _with(node, op=_OPERATORS[type(op)]())
        case ast.Compare():
            for i, op in enumerate(node.ops):
                for new in _COMPARISONS[type(op)]:
                    yield "comparison", _with(node, ops=[*node.ops[:i], new(), *node.ops[i + 1 :]])
        case ast.BoolOp(op=op, values=values):
            yield "and/or", _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield "condition dropped", rest[0] if len(rest) == 1 else _with(node, values=rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not removed", operand
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "sign", operand
        case ast.Constant(value=value) if isinstance(value, bool | int | float):
            yield from (("constant", ast.Constant(new)) for new in _constants(value))
        case ast.If() | ast.While() | ast.IfExp():
            yield from _of_branch(node)
        case ast.Return(value=ast.Compare() | ast.BoolOp() as value):
            yield "result", ast.Return(ast.UnaryOp(ast.Not(), value))
        case ast.Return(value=ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()) as value):
            yield "result", ast.Return(ast.UnaryOp(ast.USub(), value))
        case ast.Call():
            yield from _of_call(node, defaults)


def _of_operation(node: ast.BinOp) -> Iterator[Change]:
    left, op, right = node.left, node.op, node.right
    if any(isinstance(x, ast.JoinedStr) or _is_text(x) for x in (left, right)):
        return
    if type(op) in _OPERATORS:
        yield "operator", _with(node, op=_OPERATORS[type(op)]())
    if isinstance(op, ast.Add | ast.Mult | ast.Sub | ast.Div | ast.Pow):
        yield "term dropped", left
    if isinstance(op, ast.Add | ast.Mult):
        yield "term dropped", right
    if isinstance(op, ast.Sub):
        yield "term dropped", ast.UnaryOp(ast.USub(), right)
    if isinstance(op, ast.Div) and not (isinstance(left, ast.Constant) and left.value == 1):
        yield "term dropped", _with(node, left=ast.Constant(1))


def _constants(value: float) -> tuple[float, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1, 2 * value) if value > 1 else (value + 1,)
    return (value * 1.5 if value else 1.0,)


def _of_branch(node: ast.If | ast.While | ast.IfExp) -> Iterator[Change]:
    if isinstance(node, ast.IfExp):
        yield from (("branch", node.body), ("branch", node.orelse))
        return
    yield "branch", _with(node, test=ast.Constant(False))
    refuses = isinstance(node.body[0], ast.Raise)  # a check that always refuses would fail at once
    if isinstance(node, ast.If) and not refuses:
        yield "branch", _with(node, test=ast.Constant(True))


def _of_call(node: ast.Call, defaults: Mapping[str, set[str]]) -> Iterator[Change]:
    match node.func:
        case ast.Attribute(value=value, attr=name):
            if name in _SWAPPED:
                yield "function", _with(node, func=ast.Attribute(value, _SWAPPED[name], ast.Load()))
        case ast.Name(id=name):
            if name in _BUILTINS:
                yield "function", _with(node, func=ast.Name(_SWAPPED[name], ast.Load()))
        case _:
            return
    if name in _TAKEN_AWAY and len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
        yield "function dropped", node.args[0]
    for i, keyword in enumerate(node.keywords):
        if keyword.arg in _OPTIONAL or keyword.arg in defaults.get(name, ()):
            rest = [*node.keywords[:i], *node.keywords[i + 1 :]]
            yield "keyword dropped", _with(node, keywords=rest)


def _is_text(node: ast.AST) -> bool:
    return any(
        isinstance(x, ast.Constant) and isinstance(x.value, str) for x in (node, getattr(node, "func", node))
    )


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new
