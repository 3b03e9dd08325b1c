// Sliders, choices and check boxes with labels.

/** Returns a group of radio buttons that looks like one switch. options: [[value, text]]. */
function choice(label, options, value, changed) {
  const name = `choice${++choice.count}`;
  return h('fieldset', {class: 'choice'}, h('legend', {}, label),
    h('div', {class: 'options'}, options.map(([key, text]) => h('label', {},
      h('input', {type: 'radio', name, value: key, checked: key === value,
        change: () => changed(key)}),
      h('span', {}, text)))));
}
choice.count = 0;

/** Returns a group of check boxes; `on` is a set that it keeps. */
function checks(label, options, on, changed) {
  const flip = (key, event) => {
    if (event.target.checked) on.add(key);
    else on.delete(key);
    changed();
  };
  return h('fieldset', {class: 'choice'}, h('legend', {}, label),
    h('div', {class: 'options'}, options.map(([key, text]) => h('label', {},
      h('input', {type: 'checkbox', checked: on.has(key), change: (event) => flip(key, event)}),
      h('span', {}, text)))));
}

/** Returns {node, set(value)}: a slider with its value as text beside it. */
function slider(label, {min, max, value, text, changed}) {
  const output = h('output', {}, text(value));
  const input = h('input', {type: 'range', min, max, step: 1, value, 'aria-label': label,
    'aria-valuetext': text(value), disabled: min === max,
    input: () => {
      set(Number(input.value));
      changed(Number(input.value));
    }});
  const set = (now) => {
    input.value = now;
    input.setAttribute('aria-valuetext', text(now));
    output.textContent = text(now);
  };
  return {node: h('label', {class: 'slider'}, h('span', {}, label), input, output), set};
}

/** Returns a labelled list. options: [[value, text]]. */
function select(label, options, value, changed) {
  return h('label', {class: 'field'}, h('span', {}, label),
    h('select', {change: (event) => changed(event.target.value)}, options.map(([key, text]) =>
      h('option', {value: key, selected: String(key) === String(value)}, text))));
}

/** Returns the slider over sampled steps. */
function stepSlider(samples, value, changed) {
  return slider('Step', {min: 0, max: samples.length - 1, value, changed,
    text: (i) => `${countText(samples[i].step)} (sample ${i + 1} of ${samples.length})`});
}

function button(text, clicked, more = {}) {
  return h('button', {type: 'button', click: clicked, ...more}, text);
}
