"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const form = byId("filter"), paper = byId("filter-paper"), verdict = byId("filter-verdict"), text = byId("filter-text");
  const rows = [...document.querySelectorAll("#verdict-table tbody tr")];
  const counts = [...document.querySelectorAll("button.count")];

  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      const fits = (!paper.value || row.dataset.paper === paper.value) &&
        (!verdict.value || row.dataset.verdict === verdict.value) && words.every((word) => content.includes(word));
      row.hidden = !fits;
      const claim = byId("claim-" + row.dataset.claim);
      if (claim) claim.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    for (const button of counts) button.setAttribute("aria-pressed", String(button.dataset.verdict === verdict.value));
    byId("filter-count").textContent = shown === rows.length ? `${rows.length} claims` : `${shown} of ${rows.length} claims`;
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  for (const field of [paper, verdict, text]) for (const event of ["input", "change"]) field.addEventListener(event, filter);
  for (const button of counts) button.addEventListener("click", () => {
    verdict.value = verdict.value === button.dataset.verdict ? "" : button.dataset.verdict;
    filter();
  });

  // A drawing is in the page once, under "Tables and figures"; claims borrow it.
  function draw(within) {
    for (const image of within.querySelectorAll("img[data-figure]:not([src])")) {
      const source = document.querySelector(`img[data-drawing="${CSS.escape(image.dataset.figure)}"]`);
      if (source) image.src = source.src;
    }
  }
  for (const claim of document.querySelectorAll("details.claim")) claim.addEventListener("toggle", () => claim.open && draw(claim));
  for (const link of document.querySelectorAll("a[data-svg]")) {
    const source = document.querySelector(`img[data-drawing="${CSS.escape(link.dataset.svg)}"]`);
    if (source && source.src.startsWith("data:image/svg")) link.href = source.src;
  }

  function reveal() {
    const target = location.hash.length > 1 ? byId(decodeURIComponent(location.hash.slice(1))) : null;
    if (!target) return;
    if (target.hidden) { form.reset(); filter(); }
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (target.tagName === "DETAILS") target.querySelector("summary").focus({ preventScroll: true });
    target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) reveal();
  });

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details.claim:not([open])")];
    for (const claim of closed) claim.open = true;
    draw(document);
  });
  addEventListener("afterprint", () => { for (const claim of closed) claim.open = false; });

  filter();
  reveal();
})();
