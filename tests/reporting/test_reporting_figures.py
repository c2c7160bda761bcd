"""Every figure of a full, a failed and an empty study; files that are the same every time; labels that do not touch."""

import re
import subprocess
import sys

import matplotlib as mpl
import pandas as pd
import pytest
import results_factory as factory
from matplotlib.figure import Figure
from PIL import Image

from overtone.cli import main
from overtone.errors import UserError
from overtone.files import write_json
from overtone.reporting import modules, style
from overtone.reporting.collect import Results
from overtone.reporting.figures.data import read_table
from overtone.reporting.figures.draw import draw_figure
from overtone.reporting.tables.build import build_table
from overtone.reporting.tables.table import write_table
from overtone.study import EXHIBITS

FIGURES = [name for name, item in EXHIBITS.items() if item.figure]


def tables_of(folder, **options):
    root = factory.write_results(folder, **options)
    write_json(root / "claims.json", factory.claims_json())
    results = Results.open(root / "study.json", root)
    for name in FIGURES:
        write_table(name, build_table(name, results, root / "claims.json"), results, folder / "tables")
    return folder / "tables"


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return tables_of(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    return tables_of(tmp_path_factory.mktemp("failed"), statuses=lambda cell: "oom" if cell.seed % 2 else "diverged")


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    data = factory.study_data(experiments={}, transplants={}, lr_sweep={},
                              protocols={"harmonic": {"budget": 8192, "tokens_per_step": 2048, "lr": 0.001}})
    return tables_of(tmp_path_factory.mktemp("empty"), data=data)


def texts(figure):
    """Every visible text of a figure with its place in pixels."""
    for _ in range(2):  # as `style.save` does
        figure.draw_without_rendering()
    found = []
    for artist in figure.findobj(mpl.text.Text):
        if artist.get_visible() and artist.get_text().strip():
            box = artist.get_window_extent()
            if box.width > 0 and box.height > 0:
                found.append((artist, box))
    return found


def test_every_figure_has_a_drawer():
    assert sorted(modules.FIGURES) == sorted(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_a_word_among_a_figures_numbers_is_told(full, tmp_path, name):
    """A table that somebody edited: words in every column of numbers, mended one by one as each is told; the rest is never read."""
    whole = pd.read_csv(full / f"{name}.csv")
    numbers = whole.select_dtypes("number").columns
    edited = whole.astype(dict.fromkeys(numbers, object))
    edited.loc[0, numbers] = "about 3"
    told = []
    while True:
        edited.to_csv(tmp_path / f"{name}.csv", index=False)
        try:
            draw_figure(name, read_table(tmp_path, name))
            break
        except UserError as error:
            found = re.search(rf"{name}.csv: the column '(.+)' holds 'about 3', expected a number", str(error))
            assert found
            told.append(found[1])
            edited[found[1]] = whole[found[1]]
    assert len(told) == len(set(told))
    assert told or name == "claims"


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_of_a_full_study(full, name):
    figure = draw_figure(name, read_table(full, name))
    assert isinstance(figure, Figure)
    assert figure.get_figwidth() <= style.WIDTH
    axes = [axis for axis in figure.findobj(mpl.axes.Axes) if axis.has_data()]
    assert axes
    found, page = texts(figure), figure.bbox
    scales = [which for axis in axes for which in (axis.xaxis, axis.yaxis)]
    hidden = {tick.label1 for which in scales for tick in which.get_major_ticks() + which.get_minor_ticks()
              if not min(which.get_view_interval()) <= tick.get_loc() <= max(which.get_view_interval())}
    for artist, box in found:
        inside = box.x0 >= -2 and box.x1 <= page.x1 + 2 and box.y0 >= -2 and box.y1 <= page.y1 + 2
        assert inside or artist in hidden, f"{artist.get_text()!r} is clipped"


@pytest.mark.parametrize("name", ["crossover", "training_curves", "hallamonic", "decode", "kernel_tail", "memory_wall", "lr_sweep"])
def test_direct_labels_do_not_overlap(full, name):
    figure = draw_figure(name, read_table(full, name))
    labels = [(artist, box) for artist, box in texts(figure) if getattr(artist, "xycoords", None) == "axes fraction"]
    assert labels
    for index, (first, box) in enumerate(labels):
        for second, other in labels[index + 1:]:
            overlap = min(box.x1, other.x1) - max(box.x0, other.x0), min(box.y1, other.y1) - max(box.y0, other.y0)
            assert overlap[0] <= 1 or overlap[1] <= 2, f"{first.get_text()!r} touches {second.get_text()!r}"


@pytest.mark.parametrize("name", ["lr_sweep", "zoo"])
def test_the_titles_of_many_protocols_do_not_touch(full, name):
    data = read_table(full, name)
    protocols = pd.concat([data.assign(protocol=f"harmonic-of-kind-{number}") for number in range(5)])
    boxes = [box for artist, box in texts(draw_figure(name, protocols)) if artist.get_text().startswith("Protocol")]
    assert len(boxes) == 5
    for index, box in enumerate(boxes):
        for other in boxes[index + 1:]:
            assert min(box.x1, other.x1) <= max(box.x0, other.x0) or min(box.y1, other.y1) <= max(box.y0, other.y0)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_where_nothing_ended_ok(failed, name):
    draw_figure(name, read_table(failed, name)).draw_without_rendering()


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_of_an_empty_study(empty, name):
    figure = draw_figure(name, read_table(empty, name))
    figure.draw_without_rendering()
    if read_table(empty, name).empty:
        assert [text.get_text() for text in figure.texts] == ["not measured in this study"]


def test_files_are_equal_bytes_fonts_embedded_and_sharp(full, tmp_path):
    for folder in ("a", "b"):
        style.save(draw_figure("crossover", read_table(full, "crossover")), tmp_path / folder, "crossover")
    for kind in ("pdf", "svg", "png"):
        assert (tmp_path / f"a/crossover.{kind}").read_bytes() == (tmp_path / f"b/crossover.{kind}").read_bytes()
    pdf = (tmp_path / "a/crossover.pdf").read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/CreationDate" not in pdf
    svg = (tmp_path / "a/crossover.svg").read_text()
    assert "<text" not in svg  # outlines: no font is needed to read it
    assert "dc:date" not in svg
    image = Image.open(tmp_path / "a/crossover.png")
    assert round(image.info["dpi"][0]) >= 150
    assert image.width >= 1000


def test_a_figure_reads_its_csv_alone(full, tmp_path):
    (tmp_path / "crossover.csv").write_bytes((full / "crossover.csv").read_bytes())
    draw_figure("crossover", read_table(tmp_path, "crossover"))


def test_the_verb(full, tmp_path, capsys):
    assert main(["figure", "claims", "--tables", str(full), "--out", str(tmp_path)]) == 0
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".pdf", ".png", ".svg"]
    assert main(["figure", "audits", "--tables", str(full), "--out", str(tmp_path)]) == 2
    assert "has no figure" in capsys.readouterr().err
    assert main(["figure", "crossover", "--tables", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "overtone table crossover" in capsys.readouterr().err


def test_a_csv_of_another_version_is_named(full):
    data = read_table(full, "crossover").drop(columns="gap_pct")
    with pytest.raises(UserError, match="'gap_pct' is missing"):
        draw_figure("crossover", data)


def test_an_architecture_keeps_its_look():
    assert style.look("harmonic") == style.look("harmonic")
    assert style.look("harmonic-flat").color == style.look("harmonic").color
    assert style.look("harmonic-flat").marker != style.look("harmonic-raw").marker
    looks = [style.look(name) for name in ("harmonic", "transformer", "llama", "mamba", "resonator")]
    assert len({look.color for look in looks}) == len({look.marker for look in looks}) == 5
    assert style.look("somebody-elses").label == "somebody-elses"


def test_labels_move_apart_and_no_further():
    assert style.spread([0.1, 0.9], 0.1) == pytest.approx([0.1, 0.9])
    moved = style.spread([0.5, 0.5, 0.52], 0.1)
    assert sorted(moved) == pytest.approx([0.5067 - 0.1, 0.5067, 0.5067 + 0.1], abs=1e-3)
    assert moved[2] == max(moved)
    assert style.spread([1.0, 1.0, 0.2], 0.1) == pytest.approx([0.9, 1.0, 0.2])


def test_ticks_keep_their_distance_and_the_longest_length():
    assert style.apart([128, 512, 2048], 9) == [128, 512, 2048]
    assert style.apart([2.0**power for power in range(7, 17)], 4) == [128, 1024, 8192, 65536]
    assert style.apart([512], 4) == [512]


def test_tables_and_figures_load_no_torch():
    code = ("import sys, overtone.reporting.tables.build, overtone.reporting.figures.draw, overtone.reporting.collect\n"
            "from overtone.reporting import modules\n"
            "[modules.table_function(name) for name in modules.TABLES]\n"
            "[modules.figure_function(name) for name in modules.FIGURES]\n"
            "assert not {'torch', 'scipy', 'seaborn', 'snakemake'} & set(sys.modules), sorted(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)
