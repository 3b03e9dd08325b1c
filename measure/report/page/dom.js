// Makes elements, and keeps the state of controls.

const SVG_SPACE = 'http://www.w3.org/2000/svg';

/** Returns an HTML element. Attributes that are functions are event listeners; children that are
 *  null, undefined or '' are left out. */
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Returns an SVG element. */
function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_SPACE, tag), attributes, children);
}

function fill(element, attributes, children) {
  setAll(element, attributes);
  element.append(...given(children));
  return element;
}

function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value);
  }
}

function given(children) {
  return children.flat(4).filter((child) => child !== null && child !== undefined && child !== '');
}

/** Replaces the content of an element. */
function show(element, ...children) {
  element.replaceChildren(...given(children));
}

const ruler = document.createElement('canvas').getContext('2d');

/** Returns the width of text in pixels, in the font of the drawings. */
function textWidth(text, size = 12, family = 'system-ui, sans-serif') {
  ruler.font = `${size}px ${family}`;
  return Math.ceil(ruler.measureText(text).width * 1.03) + 1;
}

function widest(texts, size = 12) {
  return texts.reduce((most, text) => Math.max(most, textWidth(text, size)), 0);
}

/** Returns a table: head is an array of texts, rows of arrays of texts or nodes. Columns named in
 *  `numeric` are right-aligned. */
function table(caption, head, rows, numeric = []) {
  const side = (i) => (numeric.includes(i) ? 'number' : null);
  const cells = (row) => row.map((cell, i) => i === 0 ? h('th', {scope: 'row'}, cell) :
    h('td', {class: side(i)}, cell));
  return h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
    h('table', {}, h('caption', {}, caption),
      h('thead', {}, h('tr', {}, head.map((cell, i) =>
        h('th', {scope: 'col', class: side(i)}, cell)))),
      h('tbody', {}, rows.map((row) => h('tr', {}, cells(row))))));
}

/** Says that a panel lacks data, and how to get it. */
function missing(text) {
  return h('p', {class: 'missing'}, text);
}

/** Returns a legend: [[CSS class, text]]. */
function legend(entries) {
  return h('ul', {class: 'legend'}, entries.map(([kind, text]) =>
    h('li', {}, h('span', {class: `swatch ${kind}`, 'aria-hidden': 'true'}), text)));
}
