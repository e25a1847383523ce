"""A table of figures, as text or JSON."""

import dataclasses


@dataclasses.dataclass
class Table:
    title: str
    units: str  # what the figures are, and what each is a ratio to
    columns: list[str]
    rows: list[list] = dataclasses.field(default_factory=list)  # text, or numbers; None: there is none
    notes: list[str] = dataclasses.field(default_factory=list)

    def column(self, name: str) -> list:
        return [row[self.columns.index(name)] for row in self.rows]

    def text(self) -> str:
        cells = [self.columns, *([_text(value) for value in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                           for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in cells]
        return "\n".join([self.title, self.units, "", *lines, *(f"- {note}" for note in self.notes)]) + "\n"

    def as_json(self) -> dict:
        return dataclasses.asdict(self)


def _text(value) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
