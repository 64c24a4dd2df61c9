"""One page with an interactive map of the topics, complete in itself."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.files import write_atomic
from benthic.topics.picture import topic_map

_WEIGHTS = np.linspace(0, 1, 11)  # settings of the slider whose leading words are put into the page


def write_page(
    path: str | Path,
    topics: np.ndarray,
    shares: np.ndarray,
    counts: np.ndarray,
    words: Sequence[str],
    top: int,
    title: str,
) -> Path:
    """Write the page.

    topics: (topics, words) p(word | topic). shares: (topics,) of all words. counts: (words,) in all documents.
    """
    data = _data(topics, shares, counts, words, top)
    # "</" could end the script; JSON may write the slash escaped
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    page = _PAGE.replace("@TITLE@", html.escape(title)).replace("@DATA@", text)
    return write_atomic(Path(path), page.encode())


def _data(topics: np.ndarray, shares: np.ndarray, counts: np.ndarray, words: Sequence[str], top: int) -> dict[str, Any]:
    """What the page shows: places and shares, and of each topic the words that lead at any setting of the slider."""
    anywhere = np.maximum(shares @ topics, 1e-300)
    logs, lift = np.log(np.maximum(topics, 1e-300)), np.log(np.maximum(topics, 1e-300)) - np.log(anywhere)
    listed = []
    for k in range(len(topics)):
        leading = [np.argsort(-(a * logs[k] + (1 - a) * lift[k]), kind="stable")[:top] for a in _WEIGHTS]
        rows = np.unique(np.concatenate(leading)).tolist()
        listed.append([[words[w], _short(topics[k, w]), _short(anywhere[w]), _short(counts[w])] for w in rows])
    places = topic_map(topics)
    return {
        "top": top,
        "total": float(counts.sum()),
        "topics": [
            {"x": _short(x), "y": _short(y), "share": _short(share), "words": each}
            for (x, y), share, each in zip(places, shares, listed, strict=True)
        ],
    }


def _short(value: Any) -> float:
    return float(f"{float(value):.5g}")


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>@TITLE@</title>
<style>
:root { color-scheme: light dark; --ink: #1c2733; --soft: #6b7a89; --paper: #ffffff; --line: #d9e0e6;
        --dot: #2a7f9e; --hot: #d1495b; --all: #c9d6de; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #93a1af; --paper: #12181e; --line: #2b353f; --dot: #4aa3c2; --hot: #ef6f7f;
          --all: #33424f; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 20px 24px; background: var(--paper); color: var(--ink);
       font: 14px/1.4 system-ui, sans-serif; }
h1 { font-size: 20px; margin: 0 0 4px; }
p { margin: 0 0 12px; color: var(--soft); }
main { display: flex; flex-wrap: wrap; gap: 24px; }
section { flex: 1 1 420px; min-width: 320px; }
svg { width: 100%; display: block; overflow: visible; }
#map { border: 1px solid var(--line); border-radius: 8px; }
circle { fill: var(--dot); fill-opacity: .45; stroke: var(--dot); cursor: pointer; transition: fill .15s, r .15s; }
circle:focus { outline: none; stroke-width: 3; }
circle.chosen { fill: var(--hot); stroke: var(--hot); fill-opacity: .6; }
text { fill: var(--ink); font-size: 12px; pointer-events: none; }
.word { pointer-events: auto; cursor: default; }
.word:hover { font-weight: 700; }
.bar { fill: var(--hot); } .all { fill: var(--all); }
label { display: flex; align-items: center; gap: 10px; margin-bottom: 8px; flex-wrap: wrap; }
input[type=range] { flex: 1; min-width: 120px; accent-color: var(--hot); }
.row { display: flex; justify-content: space-between; align-items: baseline; gap: 12px; }
.row h2 { font-size: 16px; margin: 0 0 6px; }
button { font: inherit; padding: 1px 9px; border: 1px solid var(--line); border-radius: 6px; background: none;
         color: inherit; cursor: pointer; }
small { color: var(--soft); }
</style>
</head>
<body>
<h1>@TITLE@</h1>
<p id="about"></p>
<main>
<section>
<svg id="map" viewBox="0 0 560 520" role="group" aria-label="Map of topics"></svg>
<small>Topics with similar words are near each other; areas are shares of all words. Point at a topic or a word, click
to keep a topic, arrow keys to go through them.</small>
</section>
<section>
<div class="row"><h2 id="name"></h2><span><button id="back" aria-label="previous topic">&larr;</button>
<button id="on" aria-label="next topic">&rarr;</button></span></div>
<label>specific to the topic <input id="weight" type="range" min="0" max="1" step="0.1" value="0.6"
aria-label="relevance"> frequent in it <output id="shown"></output></label>
<svg id="words" role="img" aria-label="Leading words"></svg>
<small>Red: how often the topic uses the word (expected); gray: how often it stands in all documents.</small>
</section>
</main>
<script type="application/json" id="data">@DATA@</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const topics = data.topics;
const get = id => document.getElementById(id);
const make = (kind, settings, parent, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [key, value] of Object.entries(settings)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
};
const order = topics.map((_, k) => k).sort((a, b) => topics[b].share - topics[a].share);
let kept = order[0], seen = kept;

const W = 560, H = 520, edge = 60;
const span = (key) => {
  const all = topics.map(t => t[key]), low = Math.min(...all), high = Math.max(...all);
  return [low, high - low];
};
const [x0, xw] = span("x"), [y0, yw] = span("y");
const scale = Math.min((W - 2 * edge) / (xw || 1), (H - 2 * edge) / (yw || 1));
const radius = share => Math.max(4, Math.sqrt(share) * Math.min(95, 40 + 4 * topics.length));
const dots = topics.map((topic, k) => {
  const x = W / 2 + (topic.x - x0 - xw / 2) * scale, y = H / 2 - (topic.y - y0 - yw / 2) * scale;
  const at = { cx: x, cy: y, r: radius(topic.share), tabindex: 0, role: "button", "aria-label": "topic " + k };
  const dot = make("circle", at, get("map"));
  make("title", {}, dot, "topic " + k + ": " + (100 * topic.share).toFixed(1) + " %");
  make("text", { x, y: y + 4, "text-anchor": "middle" }, get("map"), k);
  dot.addEventListener("mouseenter", () => show(k));
  dot.addEventListener("mouseleave", () => show(kept));
  dot.addEventListener("click", () => choose(k));
  dot.addEventListener("focus", () => choose(k));
  return dot;
});

const places = new Map();  // of each word, the topics that list it
topics.forEach((topic, k) => topic.words.forEach(([word, chance, anywhere]) => {
  if (!places.has(word)) places.set(word, new Map());
  places.get(word).set(k, chance * topic.share / anywhere);
}));
const byWord = word => dots.forEach((dot, k) => {
  const part = word === null ? topics[k].share : (places.get(word).get(k) || 0);
  dot.setAttribute("r", word === null ? radius(part) : Math.max(2, 40 * Math.sqrt(part)));
});

function show(k) {
  seen = k;
  const weight = Number(get("weight").value), topic = topics[k];
  get("shown").textContent = weight.toFixed(1);
  get("name").textContent = "Topic " + k + ": " + (100 * topic.share).toFixed(1) + " % of words";
  dots.forEach((dot, j) => dot.classList.toggle("chosen", j === k));
  const rank = ([, chance, anywhere]) => Math.log(chance) - (1 - weight) * Math.log(anywhere);
  const rows = [...topic.words].sort((a, b) => rank(b) - rank(a)).slice(0, data.top);
  const svg = get("words"), line = 18, left = 130, wide = 560 - left - 60;
  svg.replaceChildren();
  svg.setAttribute("viewBox", "0 0 560 " + (rows.length * line + 4));
  const used = row => row[1] * topic.share * data.total;
  const most = Math.max(...rows.map(row => Math.max(row[3], used(row))), 1e-9);
  rows.forEach((row, i) => {
    const y = i * line;
    const name = row[0].length > 20 ? row[0].slice(0, 19) + "\\u2026" : row[0];
    const label = make("text", { x: left - 8, y: y + 13, "text-anchor": "end", class: "word" }, svg, name);
    make("title", {}, label, row[0] + ": p(word | topic) = " + row[1]);
    label.addEventListener("mouseenter", () => byWord(row[0]));
    label.addEventListener("mouseleave", () => byWord(null));
    make("rect", { x: left, y: y + 2, height: 13, width: wide * row[3] / most, class: "all" }, svg);
    make("rect", { x: left, y: y + 2, height: 13, width: wide * used(row) / most, class: "bar" }, svg);
    make("text", { x: left + wide * Math.max(row[3], used(row)) / most + 6, y: y + 13 }, svg, Math.round(used(row)));
  });
}
function choose(k) { kept = k; show(k); }
function step(by) {
  choose(order[(order.indexOf(kept) + by + order.length) % order.length]);
}
get("weight").addEventListener("input", () => show(seen));
get("back").addEventListener("click", () => step(-1));
get("on").addEventListener("click", () => step(1));
document.addEventListener("keydown", event => {
  if (event.target.tagName === "INPUT") return;
  if (event.key === "ArrowLeft") step(-1);
  if (event.key === "ArrowRight") step(1);
});
get("about").textContent = topics.length + " topics of " + Math.round(data.total).toLocaleString("en") + " words";
choose(kept);
</script>
</body>
</html>
"""
