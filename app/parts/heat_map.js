// Draws every partition as a cell on one canvas, grouped by flow and topic.
const HIGHEST = 300; // px that the map may take before its cells become smaller, or it scrolls
const SIZES = [20, 18, 16, 14, 12, 10, 8, 7, 6, 5, 4, 3];
const NAMED = 12; // px: smaller cells have no names
const GAP = 16; // px between topics
const FONT = "12px sans-serif", FLOW_FONT = "600 12px sans-serif";

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".root");
  root.classList.toggle("dark", isDark(parentElement));
  root.querySelector(".words").innerHTML = data.legend; // escaped by app/heat_map.py
  const canvas = root.querySelector("canvas");
  canvas.setAttribute("aria-label", data.summary);
  const map = (root.map ??= new CellMap(root, canvas, root.querySelector(".tip")));
  map.show(data.blocks);
  return () => map.watcher.disconnect();
}

class CellMap {
  constructor(root, canvas, tip) {
    Object.assign(this, { root, canvas, tip, blocks: [], boxes: [], at: -1 });
    this.watcher = new ResizeObserver(() => this.draw());
    canvas.addEventListener("mousemove", (event) => this.point(this.under(event), event.clientX, event.clientY));
    canvas.addEventListener("mouseleave", () => this.point(-1));
    canvas.addEventListener("click", (event) => this.open(this.under(event)));
    canvas.addEventListener("keydown", (event) => this.walk(event));
    canvas.addEventListener("blur", () => this.point(-1));
  }

  show(blocks) {
    this.blocks = blocks;
    this.watcher.observe(this.root);
    this.draw();
  }

  draw() {
    const width = this.root.clientWidth;
    if (!width) return;
    const plan = layout(this.canvas.getContext("2d"), this.blocks, width);
    const scale = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * scale, height: plan.height * scale });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${plan.height}px` });
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(this.root);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    pen.textBaseline = "middle";
    for (const label of plan.labels) {
      pen.fillStyle = colour(label.isFlow ? "text" : "faint");
      pen.font = label.font;
      pen.fillText(label.text, label.x, label.y + plan.size / 2);
    }
    pen.textAlign = "center";
    pen.font = `${Math.max(6, plan.size - 9)}px sans-serif`;
    const tones = Object.fromEntries(["ok-cell", "ok", "warn", "unknown", "ill", "idle"].map((name) => [name, colour(name)]));
    for (const box of plan.boxes) {
      const [, shape, tone] = box.cell;
      const inner = Math.max(1, plan.size - (plan.size > 5 ? 2 : 0.5));
      pen.fillStyle = tones[tone === "ok" ? "ok-cell" : tone];
      pen.fillRect(box.x, box.y, inner, inner);
      if (plan.size >= 12 && tone !== "ok") {
        pen.fillStyle = "#fff";
        if (tone === "warn" || this.root.classList.contains("dark")) pen.fillStyle = "#14171c";
        pen.fillText(shape, box.x + inner / 2, box.y + inner / 2 + 1);
      }
    }
    this.boxes = plan.boxes;
    this.size = plan.size;
    if (this.at >= 0 && this.at < this.boxes.length) this.frame(this.boxes[this.at], colour("link"));
  }

  frame(box, colour) {
    const pen = this.canvas.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.strokeRect(box.x - 1, box.y - 1, this.size, this.size);
  }

  under(event) {
    const x = event.offsetX, y = event.offsetY, size = this.size;
    return this.boxes.findIndex((box) => x >= box.x && x < box.x + size && y >= box.y && y < box.y + size);
  }

  point(number, x, y) {
    const box = this.boxes[number];
    this.tip.hidden = !box;
    if (!box) return;
    const said = box.cell[3] || "● OK, caught up";
    this.tip.textContent = `${box.block.group}  ${box.block.topic}-${box.cell[0]}: ${said}`;
    this.tip.style.left = `${Math.min(x + 12, window.innerWidth - 470)}px`;
    this.tip.style.top = `${y + 14}px`;
  }

  walk(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") this.open(this.at);
    if (!step) return;
    event.preventDefault();
    this.at = Math.min(this.boxes.length - 1, Math.max(0, this.at + step));
    this.draw();
    const box = this.boxes[this.at], edge = this.canvas.getBoundingClientRect();
    this.point(this.at, edge.left + box.x, edge.top + box.y + this.size);
  }

  open(number) {
    const box = this.boxes[number];
    if (!box) return;
    window.location.assign(`${box.block.address}&partition=${box.cell[0]}`);
  }
}

// Chooses the largest cells with which everything fits.
function layout(pen, blocks, width) {
  for (const size of SIZES) {
    const plan = placed(pen, blocks, width, size);
    if (plan.height <= HIGHEST || size === SIZES.at(-1)) return plan;
  }
}

// Lays out topics one after the other, as words in a text. Each flow begins on a new line. Small cells have no names.
function placed(pen, blocks, width, size) {
  const boxes = [], labels = [], isNamed = size >= NAMED, line = size + (isNamed ? 4 : 0);
  const hasFlows = new Set(blocks.map((block) => block.group)).size > 1;
  let x = 0, y = 0, flow;
  const named = (text, most, isFlow) => {
    pen.font = isFlow ? FLOW_FONT : FONT;
    const shown = shortened(pen, text, Math.min(most, width / 2));
    labels.push({ text: shown, x, y, font: pen.font, isFlow });
    x += Math.ceil(pen.measureText(shown).width) + 6;
  };
  for (const block of blocks) {
    if (y > HIGHEST && size > SIZES.at(-1)) break; // too high: the next smaller size is tried
    if (hasFlows && block.group !== flow && x > 0) [x, y] = [0, y + line];
    if (isNamed && hasFlows && block.group !== flow) named(block.group, 220, true);
    flow = block.group;
    if (isNamed) {
      pen.font = FONT;
      const needed = Math.min(pen.measureText(block.topic).width, 180) + 6 + size * Math.min(block.cells.length, 4);
      if (x > 0 && x + needed > width) [x, y] = [0, y + line];
      named(block.topic, 180, false);
    }
    for (const cell of block.cells) {
      if (x + size > width) [x, y] = [0, y + line];
      boxes.push({ block, cell, x, y });
      x += size;
    }
    x += isNamed ? GAP : Math.ceil(size / 2);
  }
  return { boxes, labels, size, height: y + line };
}

function shortened(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let kept = text;
  while (kept && pen.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
  return `${kept}…`;
}
