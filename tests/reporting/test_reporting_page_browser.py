"""The page in a real browser, network off: no error, filter, a claim's plot, text that stays text, phone, dark, print, keyboard."""

import base64
import shutil

import pytest
from report_factory import small_study, write_report

from overtone.cli import main

BROWSER, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver (apt-get install chromium chromium-driver)"),
]
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1280,900")
SCRIPT = '<script>document.title = "taken over"</script>'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root, reports = write_report(tmp_path_factory.mktemp("browser"), small_study(description=f"Says {SCRIPT}"))
    out = reports / "index.html"
    assert main(["page", "--study", str(root / "study.json"), "--results", str(root), "--reports", str(reports), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    selenium = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.Chrome(options=options, service=Service(DRIVER))
    driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, page):
    """The page freshly loaded at 1280 px; at the end nothing may stand in the console."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(page.as_uri())
    yield browser
    assert browser.get_log("browser") == []


def by_id(browser, name):
    return browser.find_element("id", name)


def shown_claims(browser):
    rows = browser.find_elements("css selector", "#verdict-table tbody tr")
    return [row.get_attribute("data-claim") for row in rows if row.is_displayed()]


def test_loads_with_the_network_off_and_asks_for_nothing(opened, page):
    import json

    assert opened.title == "Overtone: study factory"
    messages = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    asked = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
    ours = [params["request"]["url"] for params in asked if params["documentURL"] == page.as_uri()]
    assert page.as_uri() in ours
    assert all(url == page.as_uri() or url.startswith("data:") for url in ours), ours


def test_a_script_in_the_description_stays_text(opened):
    assert SCRIPT in opened.find_element("css selector", ".lead").text
    assert opened.title == "Overtone: study factory"


def test_the_filter_works(opened):
    everything = shown_claims(opened)
    assert len(everything) == 44
    assert by_id(opened, "filter-count").text == "44 claims"
    by_id(opened, "filter-text").send_keys("memory transformer")
    some = shown_claims(opened)
    assert 0 < len(some) < 10
    assert "H7" in some
    assert by_id(opened, "filter-count").text == f"{len(some)} of 44 claims"
    assert not by_id(opened, "claim-R1").is_displayed()
    opened.find_element("css selector", "#filter button[type=reset]").click()
    opened.execute_async_script("setTimeout(arguments[0], 50)")
    assert shown_claims(opened) == everything
    opened.find_element("css selector", "#filter-paper option[value=resonatorlm]").click()
    assert {name[0] for name in shown_claims(opened)} == {"R"}
    button = opened.find_element("css selector", "button.count[data-verdict=self-inconsistent]")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert shown_claims(opened) == ["R14"]
    button.click()
    assert shown_claims(opened) == [f"R{number}" for number in range(1, 18)]


def test_a_click_on_a_claim_shows_plot_table_rule_and_provenance(opened):
    opened.find_element("css selector", "a[href='#claim-H1']").click()
    claim = by_id(opened, "claim-H1")
    opened.execute_async_script("setTimeout(arguments[0], 100)")
    assert claim.get_attribute("open") is not None
    image = claim.find_element("css selector", "img[data-figure=crossover]")
    assert image.is_displayed()
    assert opened.execute_script("return arguments[0].complete && arguments[0].naturalWidth > 100", image)
    assert claim.find_element("css selector", "svg.interval").is_displayed()
    assert "128 tokens" in claim.find_element("css selector", "table.points").text
    assert "every point above 0 %" in claim.text
    claim.find_element("css selector", "details.provenance > summary").click()
    link = claim.find_element("css selector", "details.provenance a")
    assert "harmonic/enwiki-mini/bytes/harmonic/d64/128/1" in claim.text
    link.click()
    assert opened.execute_script("return location.hash").startswith("#cell-")


def test_a_link_to_a_filtered_claim_brings_it_back(opened):
    by_id(opened, "filter-text").send_keys("half-lives")
    assert not by_id(opened, "claim-H7").is_displayed()
    opened.execute_script("location.hash = '#claim-H7'")
    opened.execute_async_script("setTimeout(arguments[0], 100)")
    assert by_id(opened, "claim-H7").is_displayed()
    assert by_id(opened, "claim-H7").get_attribute("open") is not None


def test_the_svg_download_is_the_drawing_itself(opened):
    link = opened.find_element("css selector", "a[data-svg=crossover]").get_attribute("href")
    assert b"<svg" in base64.b64decode(link.split(",", 1)[1])


def test_the_keyboard_reaches_claims_and_focus_is_visible(opened):
    from selenium.webdriver.common.keys import Keys

    body = opened.find_element("css selector", "body")
    body.send_keys(Keys.TAB)
    focused = opened.switch_to.active_element
    assert focused.get_attribute("href").endswith("#verdicts")
    assert focused.rect["x"] >= 0  # the skip link comes into view
    assert opened.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    summary = opened.find_element("css selector", "#claim-H2 > summary")
    opened.execute_script("arguments[0].focus()", summary)
    opened.switch_to.active_element.send_keys(Keys.ENTER)
    assert by_id(opened, "claim-H2").get_attribute("open") is not None


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out_sideways(opened, width):
    screen = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    opened.execute_script("for (const item of document.querySelectorAll('details')) item.open = true")
    opened.execute_async_script("setTimeout(arguments[0], 200)")
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    assert len(opened.get_screenshot_as_png()) > 10_000


def contrast(browser, selector):
    """WCAG contrast of an element's colour against the page's ground."""
    colours = browser.execute_script(
        "const text = document.querySelector(arguments[0]), page = document.body;"
        "return [getComputedStyle(text).color, getComputedStyle(page).backgroundColor]", selector)

    def luminance(text):
        parts = [int(part) / 255 for part in text[text.index("(") + 1:-1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted(map(luminance, colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_light_and_dark(opened, scheme):
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    ground = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(21, 23, 26)") == (scheme == "dark")
    for selector in (".lead", "nav a", "#verdict-table td", ".wording", ".v-reproduced", ".v-contradicted", ".v-inconclusive",
                     ".v-not-measured-here", ".v-self-inconsistent", ".quiet"):
        assert contrast(opened, selector) >= 4.5, selector
    card = opened.execute_script("return getComputedStyle(document.querySelector('figure.card')).backgroundColor")
    assert card == "rgb(255, 255, 255)"


def test_print_shows_every_claim(opened):
    pdf = base64.b64decode(opened.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"])
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 50_000
    opened.execute_script("dispatchEvent(new Event('beforeprint'))")
    closed = opened.find_elements("css selector", "details.claim:not([open])")
    drawn = opened.execute_script("return document.querySelectorAll('img[data-figure]:not([src])').length")
    opened.execute_script("dispatchEvent(new Event('afterprint'))")
    assert (closed, drawn) == ([], 0)
    assert opened.find_elements("css selector", "details.claim[open]") == []


def test_paper_is_wide_enough_for_every_table(opened):
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 760, "height": 1100, "deviceScaleFactor": 1, "mobile": False})
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    opened.execute_script("for (const item of document.querySelectorAll('details.claim')) item.open = true")
    opened.execute_async_script("setTimeout(arguments[0], 200)")
    assert opened.execute_script("return document.documentElement.scrollWidth") <= 760
    assert not by_id(opened, "filter").is_displayed()
