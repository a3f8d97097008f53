"""Figures that notebooks show by themselves."""

import io

from matplotlib.figure import Figure

_DOTS_PER_INCH, _PIXELS_PER_INCH = 150, 100  # of the image; of the page, as the inline backend shows it


class NotebookFigure(Figure):
    """A figure that a notebook shows where it is the value of a cell, with or without `%matplotlib inline`."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": "isotherm"})
        width, height = (round(_PIXELS_PER_INCH * inches) for inches in self.get_size_inches())
        return file.getvalue(), {"width": width, "height": height}
