"""Formulas are read as brms and lme4 read them; what cannot be is refused with the place and the repair."""

import pytest

from isotherm.tables.formulas.parse import parse
from isotherm.tables.formulas.terms import SmoothTerm


def short(term):
    return term.factor, term.terms, term.correlated


GOOD = {  # target, roles, fixed part, groups, curves
    "y ~ x": ("y", {}, "1 + x", [], []),
    "y~1": ("y", {}, "1", [], []),
    "y ~ x - 1": ("y", {}, "0 + x", [], []),
    "y ~ -1 + x": ("y", {}, "0 + x", [], []),
    "y ~ 0 + x": ("y", {}, "0 + x", [], []),
    "`my y` ~ `a b` + log(`a b`)": ("my y", {}, "1 + `a b` + log(`a b`)", [], []),
    "log(y + 1) ~ x": ("log(y + 1)", {}, "1 + x", [], []),
    "y | trials(n) + weights(w) ~ x": ("y", {"trials": "n", "weights": "w"}, "1 + x", [], []),
    "t | cens(`is c`) ~ x": ("t", {"censored": "is c"}, "1 + x", [], []),
    "y | rate(e) ~ x": ("y", {"exposure": "e"}, "1 + x", [], []),
    "y ~ x + offset(o) + weights(w)": ("y", {"offset": "o", "weights": "w"}, "1 + x", [], []),
    "y ~ offset(log(e)) + x": ("y", {"exposure": "e"}, "1 + x", [], []),
    "y ~ x + offset(log(a) - b)": ("y", {"offset": "log(a) - b"}, "1 + x", [], []),
    "y ~ x + offset(a) + offset(log(b) - c)": ("y", {"offset": "a + (log(b) - c)"}, "1 + x", [], []),
    "y ~ exposure(e) + trials(n)": ("y", {"exposure": "e", "trials": "n"}, "1", [], []),
    "y ~ s(age) + s(`k m`, k=20)": ("y", {}, "1", [], [SmoothTerm("age", 10), SmoothTerm("k m", 20)]),
    "y ~ (1 | g)": ("y", {}, "1", [("g", "1", True)], []),
    "y ~ x + (1 + x || `the g`)": ("y", {}, "1 + x", [("the g", "1 + x", False)], []),
    "y ~ (x | g) + (0 + z | g)": ("y", {}, "1", [("g", "1 + x", True), ("g", "0 + z", True)], []),
    "y ~ (x - 1 | g)": ("y", {}, "1", [("g", "0 + x", True)], []),
    "y ~ (1 | a/b)": ("y", {}, "1", [("a", "1", True), ("a:b", "1", True)], []),
    "y ~ (1 | a:b)": ("y", {}, "1", [("a:b", "1", True)], []),
    "y ~ (1 | a/b/c)": ("y", {}, "1", [("a", "1", True), ("a:b", "1", True), ("a:b:c", "1", True)], []),
    "y ~ a*b + a:c - b + (a + b)**2": ("y", {}, "1 + a*b + a:c - b + (a + b)**2", [], []),
    "y ~ poly(x, 2) + bs(x, df=5) + C(v, contr.sum) + I(x**2) + np.log(x) + I(x > 3)": (
        "y", {}, "1 + poly(x, 2) + bs(x, df=5) + C(v, contr.sum) + I(x**2) + np.log(x) + I(x > 3)", [], [],
    ),
    "y ~ C(v, levels=['b', 'a']) + C(w, contr.treatment(base='b'))": (
        "y", {}, "1 + C(v, levels=['b', 'a']) + C(w, contr.treatment(base='b'))", [], [],
    ),
    "y ~\n  x +\n  z": ("y", {}, "1 + x + z", [], []),
}  # fmt: skip


@pytest.mark.parametrize("text", GOOD)
def test_formulas_in_parts(text):
    found = parse(text)
    parts = (found.target, found.special, found.fixed, [short(x) for x in found.groups], list(found.smooths))
    assert parts == GOOD[text]


BAD = {
    "": "a text such as",
    "y": "a single ~ .* It has none",
    "y ~ x ~ z": "The second is before `z` at character 9",
    "y ~": "terms after the ~",
    "~ x": "a target before the ~",
    "y ~ (1 | g": r"Close `\(1 \| g` at character 5 with `\)`",
    "y ~ x)": r"Nothing opens `\)` at character 6",
    "y ~ `x": "Close the quote ` before ``x` at character 5",
    "y ~ x +": "A term is missing at character 8",
    "y ~ x ++ z": "A term is missing at character 8",
    "y ~ a b": "Missing operator between `a` and `b`",
    "y ~ x*": "too few arguments",
    "y ~ 3*x": "Numeric literals",
    "y ~ x | g": r"\| outside of parentheses: write \(1 \| group\).* `\| g` at character 7",
    "y ~ ( | g)": r"terms before each \|.*Write \(1 \| g\)",
    "y ~ (1 | )": r"a group after each \|",
    "y ~ (0 | g)": r"whose groups have effects.*Write \(1 \| group\) in place of `0`",
    "y ~ (1 | id | g)": r"a single \| or \|\|",
    "y ~ (1 | a + b)": r"\(1 \| a\) \+ \(1 \| b\)",
    "y ~ (1 | a:a)": "different columns",
    "y ~ (1 | 3)": "groups are columns of the table",
    "y ~ (1 | gr(g))": "whose groups are a column",
    "y ~ (1 | g) + (x | g)": "a single intercept in the groups of g",
    "y ~ (. | g)": "Name the columns in place of",
    "y ~ (f(x) | g)": r"`f\(x\)` is not",
    "y ~ (1 | g) + (1 | g)": r"Leave one `\(1 \| g\)` out",
    "y ~ x - (1 | g)": r"Leave out `\(1 \| g\)` at character 9",
    "y ~ s(x, z)": r"Write `s\(x\) \+ s\(z\)`",
    "y ~ s(x, by=g)": "a curve for all rows",
    "y ~ s(x, k=3)": "from 4 to 200",
    "y ~ s(x, bs='tp')": "Leave `bs` out",
    "y ~ s(log(x))": "Name the column",
    "y ~ s()": "Name the column",
    "y ~ x + s(x)": r"Leave `x` out: the curve `s\(x\)` contains a straight line",
    "y ~ s(x) + s(x, k=20)": "each curve once",
    "y ~ sex * s(x)": r"Write `s\(...\)` as a term of its own",
    "y ~ sex:offset(x)": r"Write `offset\(...\)` as a term of its own",
    "y ~ x^2": r"write I\(x\*\*2\) or poly\(x, 2\) in place of `x\^2` at character 5",
    "y ~ (a + b)**99": "The power is 99",
    "y ~ x == 3": "It is at character 7. Write comparisons as I",
    "y ~ [x]": "without brackets",
    "y ~ {x}": r"braces: write I\(...\)",
    "y ~ 'x'": "without `'` between terms",
    "y ~ factor(x)": "Use `C` in place of `factor`",
    "y ~ te(x, z)": "Use `s` in place of `te`",
    "y ~ cr(x)": r"as in `cr\(x, df=5\)`",
    "y ~ poly(x, 10000)": "`degree` as an integer from 1 to 1000",
    "y ~ bs(x, df=100000)": "`df` as an integer",
    "y ~ poly(x, 2, _state={})": "Leave `_state` out",
    "y ~ log(poly(x, 2))": "Let `poly` stand alone",
    "y ~ log(x, 2)": "Give `log` one argument",
    "y ~ C(x, foo)": "The contrasts are contr.treatment",
    "y ~ C(log(x))": "Give `C` the name of a column",
    "y ~ Q(x)": "name of a column",
    "y ~ I(a.b)": "put it in backticks: `a.b`",
    'y ~ log(class)': r'Write Q\("class"\) for the column `class` inside of functions',
    "y ~ I(9**9**9)": "Write the number that it is",
    "y ~ I(x**1001)": "exponent of at most 1000",
    "y | foo(x) ~ z": r"Correct `foo\(x\)` at character 5",
    "y | ~ z": r"Correct what follows `\|`",
    "y | trials(n) | weights(w) ~ z": "Join with",
    "y ~ offset()": r"Write `offset\(column\)`",
    "y ~ weights(a) + weights(b)": "a single weights",
    "y ~ offset(log(a)) + exposure(b)": "a single exposure",
    "y ~ offset(poly(x, 2))": "or arithmetic of columns",
    "cbind(a, b) ~ x": r"Write `successes \| trials\(n\) ~",
    "Surv(t, e) ~ x": r"Write `time \| cens\(c\) ~",
    "5 ~ x": "Name a column in place of 5",
    "y ~ " + "(" * 60 + "x" + ")" * 60: "at most 50 parentheses",
    "y ~ " + "+".join(["x"] * 30_000): "at most 50000 characters",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_malformed_formulas_are_refused(text):
    with pytest.raises(ValueError, match=BAD[text]) as caught:
        parse(text)
    assert str(caught.value).startswith("`formula` must be ")


CODE = (
    "__import__('os').system('true')",
    "I(__import__('os'))",
    "I((lambda: 1)())",
    "I([x for x in z])",
    "I(x[0])",
    "I(x.__class__)",
    "np.os.system('true')",
    "I(f'{x}')",
    "I(x := 3)",
    "I(True)",
    "I('x')",
    "log(x=3)",
    "C(x, levels=open('a'))",
    "C(x, contr.treatment(open('a')))",
    "poly(x, *y)",
    "poly(x, **y)",
    "bs(x, knots=open('a'))",
    "lag(x)",
    "hashed(x, levels=9)",
    "Q(open('a'))",
    "I(x if y else z)",
    "eval('1')",
    "abs(eval('1'))",
    "C(x, levels=['`', open('a'), '`'])",
    "C(`x`, levels=[open('a')])",
    """Q('a"] + open("f") + x["')""",
    """bs(x, df=5, extrapolation='"] + open("f") + x["')""",
    "Q('a\\\\')",
    "{open('a')}",
    "{__import__('os')}",
)


@pytest.mark.parametrize(
    "where", ["y ~ {}", "y ~ a + a:{}", "y ~ ({} | g)", "{} ~ x", "y ~ offset({})", "y ~ (1 | {})"]
)
@pytest.mark.parametrize("code", CODE)
def test_a_formula_runs_no_code(code, where):
    with pytest.raises(ValueError, match="`formula` must be"):
        parse(where.format(code))


def test_a_dot_stands_for_the_other_columns():
    formula = parse("log(y) ~ . + x:z + offset(log(e)) + (1 | g)")
    assert formula.has_dot
    assert formula.columns == ("x", "z", "g")
    assert (
        formula.with_columns(["y", "a", "x", "e", "g", "b c", "class"]).fixed
        == "1 + (a + `b c` + `class`) + x:z"
    )
    assert not parse("y ~ a.b + bs(x, df=4, upper_bound=.5)").has_dot
    with pytest.raises(ValueError, match=r"No other column is left: remove the `\.`"):
        parse("y ~ .").with_columns(["y"])


def test_the_columns_of_a_formula():
    formula = parse("log(y) ~ a*`b c` + s(d) + offset(log(e) - f) + (poly(h, 2) | i/j)")
    assert formula.columns == ("a", "b c", "i", "h", "j", "d")
    assert formula.target_columns == ("y",)
    assert formula.special_columns == ("e", "f")


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="`formula` must be a text"):
        parse(3)
