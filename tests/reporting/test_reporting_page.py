"""The page as text: escaped, self-contained, well-formed, and every number leads to its cell."""

import base64
import os
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from report_factory import small_study, write_report

from overtone.cli import main
from overtone.errors import UserError
from overtone.files import read_json, write_json, write_text
from overtone.reporting.page_exhibits import EMBED_LIMIT, SVG_LIMIT, read_pipe_table, show_exhibits
from overtone.reporting.page_plot import interval_plot

SCRIPT = '<script>document.title = "taken over"</script>'
VOID = {"meta", "link", "img", "input", "br"}


class Tree(HTMLParser):
    """Elements with their attributes and ancestors; complains about unbalanced tags."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(self.open)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(self.open)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.text.append(data)

    def all(self, tag):
        return [(attrs, parents) for name, attrs, parents in self.elements if name == tag]


def render(root, reports):
    assert main(["page", "--study", str(root / "study.json"), "--results", str(root), "--reports", str(reports),
                 "--out", str(reports / "index.html")]) == 0
    return (reports / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    data = small_study(description=f"What a study says: {SCRIPT} & 100% \"quoted\"")
    return write_report(tmp_path_factory.mktemp("report"), data)


@pytest.fixture
def copied(report, tmp_path):
    """The report to be changed: (results, reports)."""
    for part in report:
        shutil.copytree(part, tmp_path / part.parent.name / part.name)
    return tuple(tmp_path / part.parent.name / part.name for part in report)


@pytest.fixture(scope="module")
def page(report):
    return render(*report)


@pytest.fixture(scope="module")
def tree(page):
    return Tree(page)


def test_text_of_a_study_stays_text(page, tree):
    assert SCRIPT not in page
    assert "&lt;script&gt;document.title" in page
    assert any(SCRIPT in text for text in tree.text)
    assert len(tree.all("script")) == 1


def test_every_text_of_the_claims_is_escaped(copied):
    root, reports = copied
    content = read_json(reports / "claims.json")
    for key in ("title", "statement", "published", "source", "needs", "note", "rule", "quantity_means"):
        content["claims"][0][key] = SCRIPT
    content["claims"][0]["notes"] = [SCRIPT]
    content["claims"][0]["points"][0]["label"] = SCRIPT
    content["claims"][0]["checks"][0]["title"] = SCRIPT
    write_json(reports / "claims.json", content)
    meta = read_json(reports / "tables" / "crossover.meta.json")
    write_json(reports / "tables" / "crossover.meta.json", meta | {"caption": f'"{SCRIPT}', "notes": [SCRIPT]})
    text = render(root, reports)
    assert SCRIPT not in text
    assert len(Tree(text).all("script")) == 1


def test_nothing_is_loaded_from_outside(page, tree):
    policy = next(attrs["content"] for attrs, _ in tree.all("meta") if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    for tag, attrs, _ in tree.elements:
        for name in ("src", "href", "action", "poster", "srcset"):
            value = attrs.get(name)
            if value:
                assert not re.match(r"(?:[a-z]+:)?//|https?:", value), (tag, value)
                assert name == "href" or value.startswith("data:")
        assert not any(name.startswith("on") or name == "style" for name in attrs), (tag, attrs)
    assert "@import" not in page
    assert "url(" not in page


def test_structure_for_keyboard_and_screen_reader(tree):
    assert tree.all("html")[0][0]["lang"] == "en"
    assert len(tree.all("h1")) == len(tree.all("main")) == len(tree.all("footer")) == 1
    ids = [attrs["id"] for _, attrs, _ in tree.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    first_link = tree.all("a")[0][0]
    assert first_link["class"] == "skip"
    assert first_link["href"][1:] in ids
    for attrs, _ in tree.all("a"):
        if attrs["href"].startswith("#"):
            assert attrs["href"][1:] in ids, attrs
    levels = [int(tag[1]) for tag, _, _ in tree.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for attrs, parents in tree.all("th"):
        assert attrs["scope"] == ("col" if "thead" in parents else "row")
    tables = len(tree.all("table"))
    assert tables == len(tree.all("caption")) == len(tree.all("thead")) > 10
    for attrs, _ in tree.all("img"):
        assert len(attrs["alt"]) > 20
    for tag in ("input", "select"):
        assert all("label" in parents for _, parents in tree.all(tag))
    for attrs, _ in tree.all("section"):
        assert attrs["aria-labelledby"] in ids
    assert all(attrs.get("role") == "img" and attrs.get("aria-label") for attrs, parents in tree.all("svg"))


def test_each_drawing_is_inside_once_and_apart(page, tree):
    """As an image a drawing is a document of its own: no colliding ids, no running scripts."""
    drawn = [attrs for attrs, _ in tree.all("img") if "data-drawing" in attrs]
    assert {attrs["data-drawing"] for attrs in drawn} > {"crossover", "quality"}
    content = base64.b64decode(drawn[0]["src"].split(",", 1)[1]).decode()
    assert "taken over" in content  # the drawing's own script, which an image never runs
    assert page.count(drawn[0]["src"]) == 1
    assert "clipPath" not in page


def test_downloads_of_every_measured_figure(tree):
    links = {(attrs["download"], attrs["href"].split(";")[0]) for attrs, _ in tree.all("a") if "download" in attrs}
    assert ("crossover.csv", "data:text/csv") in links
    assert ("crossover.pdf", "data:application/pdf") in links
    assert ("crossover.svg", "figures/crossover.svg") in links
    assert ("crossover.tex", "data:text/x-tex") in links


def test_large_files_are_linked_not_embedded(copied):
    reports = copied[1]
    (reports / "tables" / "crossover.csv").write_text("x" * (EMBED_LIMIT + 1), encoding="utf-8")
    write_text(reports / "figures" / "crossover.svg", f"<svg xmlns='http://www.w3.org/2000/svg'><!--{'x' * SVG_LIMIT}--></svg>")
    (reports / "figures" / "crossover.png").write_bytes(b"\x89PNG")
    shown = {item.name: item for item in show_exhibits(reports, reports / "index.html")}
    hrefs = {item.name: item.href for item in shown["crossover"].downloads}
    assert hrefs["crossover.csv"] == "tables/crossover.csv"
    assert shown["crossover"].image.startswith("data:image/png")


def test_a_number_leads_to_its_cell_config_plan_and_commit(report, page):
    root, reports = report
    claim = next(item for item in read_json(reports / "claims.json")["claims"] if item["id"] == "H1")
    metrics = read_json(root / claim["sources"][0])
    begin = page.index('id="claim-H1"')
    detail = page[begin:page.index('id="claim-H2"')]
    for part in (metrics["key"], metrics["hash"], metrics["plan"]["digest"][:16], metrics["environment"]["commit"][:12]):
        assert part in detail
    assert f'href="#cell-{metrics["hash"]}"' in detail
    row = page[page.index(f'id="cell-{metrics["hash"]}"'):]
    row = row[:row.index("</tr>")]
    assert metrics["plan"]["digest"] in row
    assert "tokens_per_step" in row
    link = re.search(r'href="([^"]+metrics\.json)"', row).group(1)
    assert (reports / link).resolve() == (root / claim["sources"][0]).resolve()


def test_verdict_first_then_claims_papers_exhibits_audits_run_cells(tree):
    sections = [attrs["id"] for attrs, parents in tree.all("section")]
    assert sections == ["verdicts", "claims", "published", "exhibits", "audits", "run", "cells"]


def test_what_is_not_measured_says_so(page):
    begin = page.index('id="exhibit-hallamonic"')
    part = page[begin:page.index("</article>", begin)]
    assert "Not measured in this study" in part
    assert "<img" not in part


def test_a_study_without_verdicts_warns(copied):
    root, reports = copied
    write_json(root / "study.json", read_json(root / "study.json") | {"verdicts": False})
    assert main(["claims", "--study", str(root / "study.json"), "--results", str(root), "--out", str(reports / "claims.json")]) == 0
    text = render(root, reports)
    assert "This study decides nothing" in text
    assert 'data-verdict="reproduced"' not in text


def test_a_report_of_another_study_or_without_tables_is_told(report, tmp_path, capsys):
    root, reports = report
    arguments = ["page", "--study", str(root / "study.json"), "--results", str(root), "--out", str(tmp_path / "p.html"), "--reports"]
    other = tmp_path / "other"
    write_json(other / "claims.json", read_json(reports / "claims.json") | {"study": "another"})
    assert main([*arguments, str(other)]) == 2
    assert "of study 'another'" in capsys.readouterr().err
    write_json(other / "claims.json", read_json(reports / "claims.json"))
    assert main([*arguments, str(other)]) == 2
    assert "no table" in capsys.readouterr().err
    assert not (tmp_path / "p.html").exists()


@pytest.mark.parametrize(("file", "said"), [
    ("tables/quality.meta.json", "overtone table quality"), ("tables/zoo.csv", "overtone table zoo"),
    ("figures/zoo.svg", "overtone figure zoo"),
])
def test_a_missing_or_empty_exhibit_is_told_not_left_out(copied, capsys, file, said):
    root, reports = copied
    arguments = ["page", "--study", str(root / "study.json"), "--results", str(root), "--reports", str(reports)]
    arguments += ["--out", str(reports / "p.html")]
    for ruin, word in ((lambda path: path.write_bytes(b""), "empty"), (lambda path: path.unlink(), "not found")):
        ruin(reports / file)
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert all(part in error for part in (file, word, said))
    assert not (reports / "p.html").exists()


def test_markdown_tables_are_read_back(tmp_path):
    from overtone.reporting.formats import markdown_table

    rows = [["a|b", "1.5"], ["<i> `x` *y*", "2"]]
    write_text(tmp_path / "t.md", f"**Title.** caption\n\n{markdown_table(['Name', 'Value'], rows)}\n\n- a note\n")
    assert read_pipe_table(tmp_path / "t.md") == (["Name", "Value"], rows, [False, True])
    write_text(tmp_path / "none.md", "*not measured*\n")
    assert read_pipe_table(tmp_path / "none.md") == ([], [], [])
    with pytest.raises(UserError, match=r"gone.md: not found"):
        read_pipe_table(tmp_path / "gone.md")


def test_the_small_plot_keeps_everything_inside():
    points = [{"label": f"p{n}", "value": v, "low": v - 1, "high": v + 2, "meets": v > 0} for n, v in enumerate((-3.0, 0.5, 40.0))]
    plot = interval_plot({"points": points, "borders": [0.0], "points_unit": "%"})
    assert len(plot.marks) == 3
    for mark in plot.marks:
        assert plot.left <= mark.low <= mark.x <= mark.high <= plot.right
        assert 0 < mark.y < plot.axis
    assert plot.left <= plot.borders[0] <= plot.right
    assert plot.marks[0].x < plot.borders[0] < plot.marks[2].x
    assert [mark.meets for mark in plot.marks] == [False, True, True]
    exact = [{"label": "p", "value": 1.0, "low": 1.0, "high": 1.0, "meets": True}]
    assert interval_plot({"points": exact, "borders": [], "points_unit": ""}) is None
    assert interval_plot({"points": [], "borders": [], "points_unit": ""}) is None


def test_the_clock_of_a_run_comes_from_its_jobs(copied):
    root, reports = copied
    for name, seconds, end in (("train/a.tsv", 30.0, 1000), ("train/b.tsv", 40.0, 1010), ("claims.tsv", 5.0, 1100)):
        write_text(root / "logs" / name, f"s\th:m:s\n{seconds}\t0:00:30\n")
        os.utime(root / "logs" / name, (end, end))
    write_text(root / "logs" / "broken.tsv", "nothing\n")
    text = re.sub(r"<[^>]+>", " ", render(root, reports))
    assert re.search(r"From the first job&#39;s start to the last one&#39;s end\s+2\.2 min", text)  # 970 to 1100
    assert re.search(r"train\s+2\s+70\.0 s", text)
    assert re.search(r"claims\s+1\s+5\.00 s", text)
