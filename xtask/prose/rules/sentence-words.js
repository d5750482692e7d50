// A sentence with more words is long.

"use strict";

const { sentences, isSentences } = require("../text.js");

const MOST = 30;

module.exports = function (context) {
  const { Syntax, RuleError, report } = context;
  return {
    [Syntax.Paragraph](node) {
      const long = isSentences(node) ? sentences(node).filter((words) => words.length > MOST) : [];
      for (const words of long) {
        const start = words.slice(0, 5).join(" ");
        report(
          node,
          new RuleError(`"${start} ..." has ${words.length} words, at most ${MOST} may; split it`),
        );
      }
    },
  };
};
