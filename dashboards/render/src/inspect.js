// What a person would object to in the picture: panels over each other, nothing drawn, texts that are cut off or collide.

const SLACK = 1.5; // pixels: boxes have fractions
const TIME = /^\d\d:\d\d(:\d\d)?$/; // Grafana writes the first and the last time of an axis where they are, room or not

/** Pairs of sections whose boxes overlap, or that stick out of the page. */
export function overlapping(sections) {
  const faults = [];
  const boxes = sections.map((section) => ({ name: section.dataset.panel, box: section.getBoundingClientRect() }));
  boxes.forEach(({ name, box }, position) => {
    if (box.right > document.documentElement.clientWidth) faults.push(`panel ${name} sticks out of the page`);
    for (const other of boxes.slice(position + 1)) if (collide(box, other.box)) faults.push(`panels ${name} and ${other.name} overlap`);
  });
  return faults;
}

/** Whether anything was: a painted canvas, a row of a table, a text. */
export function drawnIn(section) {
  const body = section.querySelector('[data-testid="data-testid panel content"]');
  if (!body || body.querySelector('.no-data')) return false;
  const painted = (canvas) => canvas.width && canvas.height && canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean);
  return [...body.querySelectorAll('canvas')].some(painted) || body.innerText.trim() !== '';
}

/** Texts of a panel that are cut off or lie on each other; the course behind a number writes axes that nobody sees. */
export function unreadable(section, { withAxes }) {
  return [...new Set([...cutInDocument(section), ...(withAxes ? faultsOnCanvas(section) : [])])];
}

function cutInDocument(section) {
  const faults = [];
  const texts = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const text = node.textContent.trim();
    if (!text || !node.parentElement.checkVisibility()) continue;
    const place = document.createRange();
    place.selectNodeContents(node);
    const fault = cut(place.getBoundingClientRect(), node.parentElement, section);
    if (fault) faults.push(`${fault}: ${text}`);
  }
  return faults;
}

function cut(box, from, section) {
  for (let element = from; element !== section.parentElement; element = element.parentElement) {
    const { overflowX, overflowY, display } = getComputedStyle(element);
    if (display === 'inline') continue; // overflow means nothing there
    const room = element.getBoundingClientRect();
    if (overflowX !== 'visible' && (box.right > room.right + SLACK || box.left < room.left - SLACK)) return 'cut off';
    const below = box.bottom > room.bottom + SLACK || box.top < room.top - SLACK;
    if (below && /auto|scroll/.test(overflowY)) return element.querySelector('table, [role=table], [role=row]') || element.closest('[role=table]') ? null : 'out of view';
    if (below && overflowY !== 'visible') return 'cut off';
  }
  return null;
}

// ---- texts that charts write on their canvases

const written = new WeakMap(); // canvas: boxes of texts since it was last cleared

/** Remember what is written on canvases. To be called before anything is drawn. */
export function watchCanvasText() {
  const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.clearRect = function clear(...where) {
    written.delete(this.canvas);
    return clearRect.apply(this, where);
  };
  CanvasRenderingContext2D.prototype.fillText = function fill(text, x, y, ...rest) {
    const transform = this.getTransform();
    if (String(text).trim() && transform.b === 0) { // rotated ones are names of axes, of which there are none
      const at = transform.transformPoint({ x, y });
      const size = this.measureText(text);
      const box = { left: at.x - size.actualBoundingBoxLeft, right: at.x + size.actualBoundingBoxRight, top: at.y - size.actualBoundingBoxAscent, bottom: at.y + size.actualBoundingBoxDescent };
      written.set(this.canvas, [...(written.get(this.canvas) ?? []), { text: String(text), box }]);
    }
    return fillText.call(this, text, x, y, ...rest);
  };
}

function faultsOnCanvas(section) {
  const faults = [];
  for (const canvas of section.querySelectorAll('canvas')) {
    const texts = written.get(canvas) ?? [];
    texts.forEach(({ text, box }, position) => {
      const slack = TIME.test(text) ? (box.right - box.left) / 2 : SLACK;
      const inside = box.left >= -slack && box.top >= -SLACK && box.right <= canvas.width + slack && box.bottom <= canvas.height + SLACK;
      if (!inside) faults.push(`cut off: ${text}`);
      for (const other of texts.slice(position + 1)) if (collide(box, other.box)) faults.push(`written over each other: ${text} and ${other.text}`);
    });
  }
  return faults;
}

const collide = (one, other) =>
  one.left < other.right - SLACK && other.left < one.right - SLACK && one.top < other.bottom - SLACK && other.top < one.bottom - SLACK;
