// A word that a reader stumbles on has a plain one beside it.

"use strict";

const { text } = require("../text.js");

const BETTER = {
  "block of numbers": "block of block pointers",
  "blocks of numbers": "blocks of block pointers",
  crew: "workers",
  mend: "repair",
  mended: "repaired",
  mending: "repair",
  mends: "repairs",
  "not there any more": "removed",
  publication: "paper",
  publications: "papers",
  "quick way": "fast path",
  "room for": "space for",
  settle: "mark clean",
  settled: "clean, durable or steady",
  settles: "marks clean",
  told: "reported",
  unsettled: "dirty",
  "what waits": "dirty data",
  whoever: "the name of the one who does it",
};

module.exports = function (context) {
  const { Syntax, RuleError, report } = context;
  const words = Object.keys(BETTER).map((word) => ({
    word,
    pattern: new RegExp(`(?<![\\p{L}\\p{N}_-])${word}(?![\\p{L}\\p{N}_-])`, "iu"),
  }));
  const check = (node) => {
    const line = text(node).replace(/\s+/g, " ");
    for (const { word } of words.filter(({ pattern }) => pattern.test(line))) {
      report(node, new RuleError(`"${word}"; write "${BETTER[word]}"`));
    }
  };
  return {
    [Syntax.Paragraph]: check,
    [Syntax.Header]: check,
    [Syntax.TableCell]: check,
  };
};
