//! How the page looks: one style sheet for screen (light, dark) and paper, and the script that adds
//! read-outs.
//!
//! Series colours follow Okabe and Ito, bars Tol's light scheme: both survive the common colour
//! blindnesses. Without colour, series are distinguished by dashes and names, bars by names and (on
//! paper) hatching.

use super::heat::LEVELS;
use super::markup::{Element, el};

pub fn css() -> String {
    let mut css = BASE.to_string();
    for scale in ["wear", "valid"] {
        for level in 0..LEVELS {
            let share = 200 * level / (LEVELS - 1);
            let (from, to) = if share <= 100 {
                ("low", "mid")
            } else {
                ("mid", "high")
            };
            let part = if share <= 100 { share } else { share - 100 };
            css.push_str(&format!(".{scale}{level}{{fill:color-mix(in oklab,var(--{scale}-{to}) {part}%,var(--{scale}-{from}))}}\n"));
        }
    }
    css
}

/// The patterns that bars wear on paper: stripes of growing density, alternately leaning left and
/// right.
pub fn hatches() -> Element {
    let pattern = |at: usize| {
        let step = 9 - at;
        let turn = [45, -45, 90][at % 3];
        let id = format!("hatch{at}");
        let tile = el("pattern")
            .attr("id", id)
            .attr("width", step)
            .attr("height", step)
            .attr("patternUnits", "userSpaceOnUse");
        let tile = tile.attr("patternTransform", format!("rotate({turn})"));
        if at == 0 {
            tile
        } else {
            tile.child(
                el("path")
                    .attr("d", format!("M0 0V{step}"))
                    .attr("stroke", "#000")
                    .attr("stroke-width", 1),
            )
        }
    };
    el("svg")
        .class("hidden")
        .attr("width", 0)
        .attr("height", 0)
        .attr("aria-hidden", "true")
        .child(el("defs").children((0..9).map(pattern)))
}

const BASE: &str = r"
:root{--paper:#fdfdfc;--ink:#1d2126;--soft:#5d6670;--rule:#e3e6e9;--tint:#f3f5f7;--mark:#fff3cf;--bad:#1d2126;
--s0:#0072b2;--s1:#c65102;--s2:#00815f;--s3:#a8457f;--s4:#9a6f00;--s5:#2f8fc9;--s6:#4a4f55;--s7:#7a5aa6;
--k0:#77aadd;--k1:#ee8866;--k2:#eedd88;--k3:#44bb99;--k4:#ffaabb;--k5:#99ddff;--k6:#bbcc33;--k7:#aaaa00;--k8:#cccccc;
--wear-low:#fff2cf;--wear-mid:#ee8420;--wear-high:#561a05;--valid-low:#eaf3f0;--valid-mid:#35a38b;--valid-high:#0a3440}
@media screen and (prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e6e8ea;--soft:#9aa3ac;--rule:#2c3238;--tint:#1d2227;--mark:#3d3413;--bad:#fff;
--s0:#56a8e0;--s1:#f0843c;--s2:#2fbf95;--s3:#dd86b8;--s4:#dcae3c;--s5:#8cc9ee;--s6:#b4bac1;--s7:#b39ddb;
--wear-low:#33261a;--wear-mid:#d9741a;--wear-high:#ffedc0;--valid-low:#1b2b2b;--valid-mid:#2b9480;--valid-high:#d3fbe9}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
main{max-width:1128px;margin:0 auto;padding:40px 24px 64px}
h1{font-size:30px;line-height:1.2;letter-spacing:-.01em;margin:0 0 8px;overflow-wrap:anywhere}
h2{font-size:20px;margin:56px 0 12px;padding-top:14px;border-top:2px solid var(--ink)}
h3{font-size:15px;margin:0;overflow-wrap:anywhere}
p{margin:0 0 10px;max-width:75ch}
figure{margin:22px 0 0;break-inside:avoid}
figcaption p,.hint,small{color:var(--soft);font-size:13px;margin:2px 0 0;max-width:none}
.notice{border-left:4px solid var(--s1);background:var(--tint);padding:8px 12px}
.scroll{overflow-x:auto}.scroll+.scroll{margin-top:28px}
@media print,(min-width:961px){.pair>.scroll+.scroll{margin-top:0}}
table{border-collapse:separate;border-spacing:0;font-variant-numeric:tabular-nums lining-nums}
th,td{padding:3px 0 3px 28px;text-align:right;vertical-align:baseline;border-bottom:1px solid var(--rule);font-weight:400}
thead th{font-weight:600;vertical-align:bottom;border-bottom-color:var(--soft);overflow-wrap:break-word}
th:first-child{padding-left:0;text-align:left;color:var(--soft);white-space:nowrap}
tbody th:first-child{position:sticky;left:0;background:var(--paper)}.group th{padding-top:18px;font-weight:600}.group th:first-child{color:var(--ink)}
.numbers td{white-space:nowrap}.numbers{min-width:min(100%,560px)}
.words td,.words thead th{text-align:left;overflow-wrap:anywhere}.prose td,.prose th{text-align:left;vertical-align:top;white-space:normal}.words tbody th:first-child{font-family:ui-monospace,monospace;font-size:13px}
.marked>*,.marked>th:first-child{background:var(--mark)}
details{margin-top:14px}summary{cursor:pointer;color:var(--soft)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 22px;margin:14px 0 0;padding:0;font-size:14px}
.swatch{height:12px;margin-right:8px;vertical-align:-1px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:0 32px}.pair .legend{grid-column:1/-1}
.pair+.pair{margin-top:26px}
.chart{display:block;width:100%;min-width:440px;height:auto;margin-top:10px;font-size:12.5px;overflow:visible}.bars,.plot[viewBox^='0 0 1080']{min-width:720px}
text{fill:var(--soft);font-variant-numeric:tabular-nums}.axis,.note,.bars .end{fill:var(--ink)}
.end{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:var(--rule);fill:none}.base{stroke:var(--soft);fill:none}
.line{fill:none;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round}.band{fill:var(--c);opacity:.18}
.dots{fill:none;stroke:var(--c);stroke-width:6;stroke-linecap:round;opacity:.75}
.name{fill:var(--c);font-weight:600;font-size:13px;stroke:var(--paper);stroke-width:4px;paint-order:stroke}
.s0{--c:var(--s0)}.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}.s4{--c:var(--s4)}.s5{--c:var(--s5)}.s6{--c:var(--s6)}.s7{--c:var(--s7)}
.s1 .line,.line.s1{stroke-dasharray:7 2}.s2 .line,.line.s2{stroke-dasharray:2 2}.s3 .line,.line.s3{stroke-dasharray:9 3 2 3}
.s5 .line,.line.s5{stroke-dasharray:7 2}.s6 .line,.line.s6{stroke-dasharray:2 2}.s7 .line,.line.s7{stroke-dasharray:9 3 2 3}
.k0{fill:var(--k0)}.k1{fill:var(--k1)}.k2{fill:var(--k2)}.k3{fill:var(--k3)}.k4{fill:var(--k4)}.k5{fill:var(--k5)}.k6{fill:var(--k6)}.k7{fill:var(--k7)}.k8{fill:var(--k8)}
.part{fill:#1d2126;pointer-events:none}.hatch{visibility:hidden;opacity:.35}.bad{fill:none;stroke:var(--bad);stroke-width:1.6}.hidden{position:absolute}
.tip{position:fixed;pointer-events:none;z-index:1;padding:6px 10px;border-radius:4px;background:var(--ink);color:var(--paper);font-size:13px;white-space:pre;font-variant-numeric:tabular-nums}
.cursor{stroke:var(--soft);stroke-dasharray:2 3}
@media print{@page{size:A4;margin:14mm}:root{--paper:#fff}body{font-size:12px}main{padding:0;max-width:none}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
h2{margin-top:28px;break-after:avoid}.hatch{visibility:visible}.chart,.bars,.plot[viewBox^='0 0 1080']{min-width:0}.scroll{overflow:visible}.tip{display:none}
.pair{grid-template-columns:1fr 1fr;gap:0 20px}.pair:has(figure),tr{break-inside:avoid}th,td{padding:1px 0 1px 14px}.group th{padding-top:10px}.numbers{width:100%}thead .swatch{display:block;margin:0 0 2px}.numbers thead .swatch{margin-left:auto}.chart{font-size:14.5px}}
";

/// Read-outs under the pointer, folded parts opened for print. The page is complete without it.
pub const SCRIPT: &str = r"
'use strict';
addEventListener('error', e => { document.documentElement.dataset.error = e.message; });
const tip = document.body.appendChild(document.createElement('div'));
tip.className = 'tip';
tip.hidden = true;
for (const svg of document.querySelectorAll('svg.plot')) {
  const series = [...svg.querySelectorAll('[data-x]')].map(g => ({
    name: g.dataset.name, far: g.dataset.near === 'xy',
    x: g.dataset.x.split(' ').map(Number), y: g.dataset.y.split(' ').map(Number), tips: g.dataset.tip.split('|') }));
  const cursor = svg.appendChild(document.createElementNS(svg.namespaceURI, 'path'));
  cursor.setAttribute('class', 'cursor');
  // The browser's own tooltip would cover ours; the title moves to where screen readers also look.
  const title = svg.querySelector('title');
  svg.setAttribute('aria-label', title.textContent);
  title.remove();
  svg.addEventListener('pointermove', e => {
    const at = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const lines = [];
    let snap = null;
    for (const s of series) {
      const distance = i => s.far ? Math.hypot(s.x[i] - at.x, s.y[i] - at.y) : Math.abs(s.x[i] - at.x);
      let best = 0;
      for (let i = 1; i < s.x.length; i++) if (distance(i) < distance(best)) best = i;
      if (!s.tips[best] || distance(best) > 24) continue;
      if (snap === null || distance(best) < Math.abs(snap - at.x)) snap = s.x[best];
      lines.push(s.name + ': ' + s.tips[best]);
    }
    tip.hidden = lines.length === 0;
    cursor.setAttribute('d', lines.length ? 'M' + snap + ' 10V256' : '');
    tip.textContent = lines.join('\n');
    tip.style.left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
    tip.style.top = e.clientY + 14 + 'px';
  });
  svg.addEventListener('pointerleave', () => { tip.hidden = true; cursor.setAttribute('d', ''); });
}
addEventListener('beforeprint', () => { for (const d of document.querySelectorAll('details')) d.open = true; });
document.documentElement.dataset.script = 'ready';
";
