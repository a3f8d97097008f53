"""The record of one deliberate mistake."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Bug:
    """A small, silent mistake: the library still runs, and its answers are wrong.

    - `mistake`: one sentence for a reader of the documentation.
    - `file`: relative to `src/isotherm`.
    - `old`, `new`: the right text, which occurs exactly once in the file, and the wrong one.
    - `also`: further pairs, for a mistake that has to be made in two places of the same file.
    - `likely`: test files, or single tests `file::name`, that should see it first.
    """

    name: str
    mistake: str
    file: str
    old: str
    new: str
    likely: tuple[str, ...]
    also: tuple[tuple[str, str], ...] = ()

    def planted_in(self, text: str) -> str:
        """The text of the file with the mistake in it."""
        for old, new in ((self.old, self.new), *self.also):
            found = text.count(old)
            if found != 1 or old == new:
                raise ValueError(
                    f"`{self.name}`: {old!r} must occur once in {self.file}; it occurs {found} times"
                )
            text = text.replace(old, new)
        return text
