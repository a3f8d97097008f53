"""Expressions in a formula: arithmetic of columns and a few functions, checked before anything evaluates them.

A formula may come from a file, so it must not run code: only what is listed here is allowed.
"""

import ast
import functools
import re

from isotherm.tables.formulas.allowed import (
    ALONE,
    BASES,
    CONTRASTS,
    INSTEAD,
    LARGEST,
    PATSY_CONTRASTS,
    SCALINGS,
    STATEFUL,
)
from isotherm.tables.formulas.evaluate import ELEMENTWISE, OPERATORS, Expression
from isotherm.tables.formulas.scan import keyword_hint, quoted, wrong


@functools.lru_cache(maxsize=1024)
def expression(text: str, formula: str) -> Expression:
    """Return an expression after checking that it holds nothing but what a formula may; `formula` is for messages."""
    if "`" in text and re.search(r"[\"']", text):
        raise wrong(
            formula,
            "one without both kinds of quotes in an expression",
            f'Write Q("name") for `...` in {text}.',
        )
    source, names = _without_backticks(text)
    try:
        node = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        hint = keyword_hint(source) or "Write it like `log(x)` or `I(x**2)`."
        raise wrong(formula, "made of expressions of columns", f"`{text}` is none. {hint}") from error
    checker = _Checker(text, formula, names)
    width = checker.top(node)
    return Expression(
        text,
        tuple(dict.fromkeys(checker.columns)),
        tuple(dict.fromkeys(checker.categories)),
        checker.elementwise,
        tuple(checker.arguments),
        width,
        node,
        {name: column for name, column in checker.names.items() if column in checker.columns},
    )


def column_expression(name: str) -> Expression:
    """Return the expression that is a column, whatever its name."""
    return Expression(quoted(name), (name,), (), True, (), 1, ast.Name("_column0_"), {"_column0_": name})


class _Checker:
    """Walks an expression, and raises at the first thing that is not allowed."""

    def __init__(self, text: str, formula: str, names: dict[str, str]) -> None:
        self.text, self.formula, self.names = text, formula, names
        self.columns: list[str] = []
        self.categories: list[str] = []
        self.arguments: list[Expression] = []
        self.elementwise = True

    def top(self, node: ast.expr) -> int:
        """Check a whole factor, and return how many columns it makes at most."""
        if isinstance(node, ast.Call):
            name = self._function(node)
            if name == "C":
                self._category(node)
                return 1
            if name in BASES:
                return self._basis(node, name)
        self.number(node)
        return 1

    def number(self, node: ast.expr) -> None:
        """Check an expression with one number in each row."""
        if isinstance(node, ast.Name):
            self._column(node.id)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            if _size(node) > 1e300:
                raise self._refuse(node, "Use smaller numbers.")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
            self.number(node.operand)
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            if not any(isinstance(x, ast.Name | ast.Call) for x in ast.walk(node)):
                raise self._refuse(node, "Write the number that it is.")
            if isinstance(node.op, ast.Pow) and _too_large(node.right):
                raise self._refuse(node, f"Use an exponent of at most {LARGEST}.")
            self.number(node.left)
            self.number(node.right)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPERATORS:
            self.number(node.left)
            self.number(node.comparators[0])
        elif isinstance(node, ast.Call):
            self._call(node)
        else:
            raise self._refuse(node, self._repair(node))

    def _call(self, node: ast.Call) -> None:
        name = self._function(node)
        if name == "Q":
            self._column(self._quoted_name(node))
        elif name in SCALINGS:
            self._stateful(node, name)
        elif name.removeprefix("np.") in ELEMENTWISE:
            if len(node.args) != 1 or node.keywords:
                raise self._refuse(node, f"Give `{name}` one argument.")
            self.number(node.args[0])
        else:
            raise self._refuse(node, f"Let `{name}` stand alone, outside of other functions and arithmetic.")

    def _function(self, node: ast.Call) -> str:
        name = ast.unparse(node.func)
        known = name.removeprefix("np.") in ELEMENTWISE or name in (*STATEFUL, "C", "Q")
        if not known or (name == "np.I"):
            if name in ALONE:
                raise self._refuse(node, f"Write `{name}(...)` as a term of its own, after a +.")
            instead = f"Use `{INSTEAD[name]}` in place of `{name}`. " if name in INSTEAD else ""
            allowed = ", ".join([*ELEMENTWISE, *STATEFUL, "C", "Q", "s", "offset"])
            raise self._refuse(node, f"{instead}The functions are {allowed}.")
        return name

    def _stateful(self, node: ast.Call, name: str) -> None:
        if not node.args:
            raise self._refuse(node, f"Give `{name}` a column first.")
        inner = _Checker(self.text, self.formula, self.names)
        inner.number(node.args[0])
        self.columns += inner.columns
        self.arguments += inner.arguments
        if inner.elementwise:
            text = ast.get_source_segment(_without_backticks(self.text)[0].strip(), node.args[0]) or self.text
            used = {name: column for name, column in self.names.items() if column in inner.columns}
            kept = tuple(dict.fromkeys(inner.columns))
            self.arguments.append(Expression(text, kept, (), True, (), 1, node.args[0], used))
        self.elementwise = False
        for argument in node.args[1:]:
            self._literal(argument)
        for given in node.keywords:
            if given.arg not in STATEFUL[name]:
                allowed = ", ".join(STATEFUL[name]) or "none"
                raise self._refuse(node, f"Leave `{given.arg}` out; the options of `{name}` are: {allowed}.")
            self._literal(given.value)

    def _basis(self, node: ast.Call, name: str) -> int:
        self._stateful(node, name)
        given = dict(zip(STATEFUL[name], node.args[1:], strict=False))
        given |= {x.arg: x.value for x in node.keywords if x.arg is not None}
        sizes = {"df": 0, "degree": 1 if name == "poly" else 3}
        for key in set(given) & set(sizes):
            x = given[key]
            size = x.value if isinstance(x, ast.Constant) else x
            if type(size) is not int or not 1 <= size <= LARGEST:
                raise self._refuse(node, f"Give `{key}` as an integer from 1 to {LARGEST}.")
            sizes[key] = size
        knots = given.get("knots")
        inner = len(knots.elts) if isinstance(knots, ast.List | ast.Tuple) else 0
        if name in ("cr", "cs", "cc") and not sizes["df"] and not inner:
            raise self._refuse(node, f"Give the number of columns, as in `{name}(x, df=5)`, or use `s(x)`.")
        return max(sizes["df"], sizes["degree"] + inner + 1)

    def _category(self, node: ast.Call) -> None:
        self.elementwise = False
        if not node.args:
            raise self._refuse(node, "Give `C` a column.")
        first = node.args[0]
        if isinstance(first, ast.Name):
            self._column(first.id)
        elif isinstance(first, ast.Call) and self._function(first) == "Q":
            self._column(self._quoted_name(first))
        else:
            raise self._refuse(node, "Give `C` the name of a column.")
        self.categories.append(self.columns[-1])
        named = {x.arg: x.value for x in node.keywords}
        if len(node.args) > 2 or set(named) - {"contrasts", "levels"}:
            raise self._refuse(node, "Its arguments are a column, `contrasts` and `levels`.")
        for contrasts in [*node.args[1:2], *([named["contrasts"]] if "contrasts" in named else [])]:
            self._contrasts(contrasts)
        if "levels" in named:
            self._literal(named["levels"])

    def _contrasts(self, node: ast.expr) -> None:
        function = node.func if isinstance(node, ast.Call) else node
        name = ast.unparse(function)
        if name in PATSY_CONTRASTS or name in [f"contr.{x}" for x in CONTRASTS]:
            for argument in (
                [*node.args, *(x.value for x in node.keywords)] if isinstance(node, ast.Call) else []
            ):
                self._literal(argument)
            if isinstance(node, ast.Call) and {x.arg for x in node.keywords} - {
                "base",
                "scores",
                "backward",
                "scale",
            }:
                raise self._refuse(node, "Leave its other arguments out.")
            if not isinstance(node, ast.Call) and name == "Treatment":
                raise self._refuse(node, "Write `contr.treatment`.")
            return
        if isinstance(node, ast.List | ast.Dict):
            self._literal(node)
            return
        names = ", ".join(f"contr.{x}" for x in CONTRASTS)
        raise self._refuse(node, f"The contrasts are {names}.")

    def _literal(self, node: ast.expr) -> None:
        """Check a constant, or a list of constants."""
        if isinstance(node, ast.List | ast.Tuple):
            for part in node.elts:
                self._literal(part)
        elif isinstance(node, ast.Dict) and None not in node.keys:
            for part in [*node.keys, *node.values]:
                self._literal(part)  # pyrefly: ignore
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            self._literal(node.operand)
        elif not isinstance(node, ast.Constant) or type(node.value) not in (
            int,
            float,
            str,
            bool,
            type(None),
        ):
            raise self._refuse(node, "Write a number, a text or a list of these.")
        elif isinstance(node.value, str):
            self._text(node, node.value)

    def _text(self, node: ast.AST, text: str) -> None:
        """Refuse texts that formulaic, which writes them into code, could take for something else."""
        if not text.isprintable() or re.search(r"[\"'\\`]", text):
            raise self._refuse(node, "Use texts without quotes and backslashes.")

    def _quoted_name(self, node: ast.Call) -> str:
        if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Constant):
            raise self._refuse(node, 'Write `Q("name of a column")`.')
        column = node.args[0].value
        if not isinstance(column, str):
            raise self._refuse(node, 'Write `Q("name of a column")`.')
        self._text(node, column)
        self.names[column] = column
        return column

    def _column(self, name: str) -> None:
        self.names.setdefault(name, name)
        self.columns.append(self.names[name])

    def _refuse(self, node: ast.AST, repair: str) -> Exception:
        shown = ast.unparse(node)
        for name, column in self.names.items():
            shown = shown.replace(name, column) if name != column else shown
        found = f"`{shown}`" if shown == self.text else f"`{shown}` in `{self.text}`"
        return wrong(
            self.formula, "made of columns, + - * / ** and a few functions", f"{found} is not. {repair}"
        )

    def _repair(self, node: ast.AST) -> str:
        if isinstance(node, ast.Attribute):
            return f"If it is a column, put it in backticks: \\`{ast.unparse(node)}\\`.".replace("\\", "")
        return "Compute it as a column of the table."


def _without_backticks(text: str) -> tuple[str, dict[str, str]]:
    """Return the text with names of its own in place of those in backticks, and the columns that they stand for."""
    names: dict[str, str] = {}

    def name_of(match: re.Match[str]) -> str:
        names[f"_column{len(names)}_"] = match[1]
        return f"_column{len(names) - 1}_"

    return re.sub(r"`([^`]+)`", name_of, text), names


def _too_large(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and _size(node) > LARGEST


def _size(node: ast.Constant) -> int | float:
    return abs(node.value) if isinstance(node.value, int | float) else 0
