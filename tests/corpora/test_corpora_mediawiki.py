"""MediaWiki dumps: what counts as an article, raw pages, odd and hostile input."""

import io
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overtone.corpora.mediawiki import wikitext_documents, xml_documents
from overtone.errors import UserError

HEAD = """<mediawiki xml:lang="en">
  <siteinfo>
    <namespaces>
      <namespace key="0" />
      <namespace key="1">Talk</namespace>
    </namespaces>
  </siteinfo>
"""


def page(title="A", text="text", ns="    <ns>0</ns>\n", number=7, extra=""):
    return f"""  <page>
    <title>{escape(title)}</title>
{ns}    <id>{number}</id>
{extra}    <revision>
      <id>999</id>
      <contributor><username>U</username><id>5</id></contributor>
      <text xml:space="preserve">{escape(text)}</text>
    </revision>
  </page>
"""


def wikitext(dump):
    return list(wikitext_documents(io.BytesIO(dump.encode() if isinstance(dump, str) else dump), "dump.xml"))


def raw(dump):
    return list(xml_documents(io.BytesIO(dump.encode() if isinstance(dump, str) else dump), "dump.xml"))


def test_articles_are_kept_and_the_rest_is_dropped():
    dump = HEAD + "".join([
        page("Kept", "an <article> & more\n\nof it", number=1),
        page("Flagged", "x", extra='    <redirect title="Kept" />\n', number=2),
        page("Spelled", "#redirect [[Kept]]", number=3),
        page("Talk:Kept", "chatter", ns="    <ns>1</ns>\n", number=4),
        page("Talk:Old", "chatter in a dump without <ns>", ns="", number=5),
        page("Old", "an article in a dump without <ns>", ns="", number=6),
        page("Empty", " \n", number=7),
    ]) + "</mediawiki>\n"
    assert [(item.id, item.title, item.text) for item in wikitext(dump)] == [
        ("1", "Kept", "an <article> & more\n\nof it"),
        ("6", "Old", "an article in a dump without <ns>"),
    ]


def test_the_last_revision_of_a_page_counts():
    dump = HEAD + page().replace("    <revision>", "    <revision><text>old</text></revision>\n    <revision>")
    assert [item.text for item in wikitext(dump)] == ["text"]


def test_a_dump_cut_inside_a_page_gives_its_whole_pages():
    dump = (HEAD + page("A") + page("B"))[:-120]
    assert [item.title for item in wikitext(dump)] == ["A"]
    assert [item.title for item in raw(dump)] == ["A", "B"]


def test_raw_documents_are_the_dump_byte_for_byte():
    dump = HEAD + page("A&B") + page("C", "é\r\nü") + "</mediawiki>\n"
    documents = raw(dump)
    assert [item.title for item in documents] == ["A&B", "C"]
    assert "".join(item.text for item in documents) == dump


@pytest.mark.parametrize("parse", [wikitext, raw])
def test_what_is_no_dump_is_a_user_error(parse):
    for bad in ("", "plain text", "<html><p></html>", b"\xff\xfe\x00", HEAD.encode() + b"<page>\n\xff\xfe</page>\n"):
        with pytest.raises(UserError, match=r"dump\.xml"):
            parse(bad)


def test_entities_are_refused():
    with pytest.raises(UserError, match="declares XML entities"):
        wikitext('<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><mediawiki>&b;</mediawiki>')


NOT_XML = "".join(map(chr, range(32))) + "\ufffe\uffff"
XML_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=NOT_XML) | st.just("\n"))


@given(st.lists(st.tuples(XML_TEXT, XML_TEXT), max_size=4))
def test_any_text_comes_back(pages):
    dump = HEAD + "".join(page(title.replace("\n", " "), "t" + text) for title, text in pages)
    assert [item.text for item in wikitext(dump)] == ["t" + text for _, text in pages]
    if pages:
        assert "".join(item.text for item in raw(dump)) == dump


FRAGMENTS = st.sampled_from([
    b"<page>", b"</page>", b"<page/>", b"<title>", b"</title>", b"<text>", b"</text>", b"<revision>", b"</revision>",
    b"<ns>0</ns>", b"<id>", b"</id>", b"&amp;", b"&bogus;", b"<![CDATA[", b"]]>", b"<!--", b"-->", b"<?x?>", b"\n",
    b"\x00", b"\xff", b"<mediawiki>", b"</mediawiki>", b"<redirect/>", b"<!DOCTYPE a>", b"x",
])


@given(st.lists(FRAGMENTS, max_size=30).map(b"".join) | st.binary(max_size=200))
def test_odd_input_gives_documents_or_a_user_error(dump):
    for parse in (wikitext, raw):
        try:
            for item in parse(HEAD.encode() + dump):
                assert isinstance(item.text, str)
        except UserError:
            pass
