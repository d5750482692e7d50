// A sentence names its subject: "What is cut is lost." hides it. A question may begin so.

"use strict";

const { sentences, isSentences } = require("../text.js");

const RIDDLES = ["What", "Who", "Whoever", "Whether"];

module.exports = function (context) {
  const { Syntax, RuleError, report } = context;
  const isRiddle = (sentence) =>
    RIDDLES.includes(sentence[0]) && !sentence.at(-1).endsWith("?");
  return {
    [Syntax.Paragraph](node) {
      const riddles = isSentences(node) ? sentences(node).filter(isRiddle) : [];
      for (const sentence of riddles) {
        const start = sentence.slice(0, 5).join(" ");
        report(node, new RuleError(`"${start} ..." starts with "${sentence[0]}"; name the subject`));
      }
    },
  };
};
