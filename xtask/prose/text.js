// The text of a block of Markdown as the rules read it: code stands as one word, and the targets of
// links do not count.

"use strict";

function text(node) {
  switch (node.type) {
    case "Str":
      return node.value;
    case "Code":
      return "X";
    case "Break":
      return " ";
    case "Image":
    case "Html":
      return "";
    default:
      return (node.children || []).map(text).join("");
  }
}

// The sentences of a paragraph. A colon and a semicolon end one too: a reader can pause there.
function sentences(paragraph) {
  const found = [[]];
  for (const word of text(paragraph).split(/\s+/).filter(Boolean)) {
    found.at(-1).push(word);
    if (/[.?!:;]$/.test(word)) {
      found.push([]);
    }
  }
  return found.filter((words) => words.length > 0);
}

// Cells of tables and headings are no sentences.
function isSentences(paragraph) {
  return paragraph.parent.type !== "TableCell";
}

module.exports = { text, sentences, isSentences };
