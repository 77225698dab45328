// Hexagons in a sloped rhombus: MuGo's board of stones (stones.js) with another shape.

const ROW = CELL * Math.sqrt(3) / 2, SIDE = CELL / Math.sqrt(3); // from row to row, and along the side of a hexagon
const RIM = 0.95, LABEL = 1.4, MARGIN = 1.8; // how far these are outside the outermost points, in cells

/** Where a row and a column meet, on the board or beside it. */
const at = (row, column) => [CELL * (MARGIN + column + row / 2), ROW * (MARGIN + row)];

const label = (name, row, column) => {
  const [x, y] = at(row, column);
  return element("text", { class: "coordinate", x, y, "aria-hidden": "true" }, name);
};

boards.hex = {
  ...boards.stones,
  place: (point) => at(Math.floor(point / view.width), point % view.width),
  cell: (x, y) => `M${x} ${y - SIDE}l${CELL / 2} ${SIDE / 2}v${SIDE}l${-CELL / 2} ${SIDE / 2}l${-CELL / 2} ${-SIDE / 2}v${-SIDE}Z`,
  ground() {
    const { width, height, look } = view;
    const across = CELL * (2 * MARGIN + width - 1 + (height - 1) / 2), down = ROW * (2 * MARGIN + height - 1);
    $("board").setAttribute("viewBox", `0 0 ${across} ${down}`);
    const corners = [[-RIM, -RIM], [-RIM, width - 1 + RIM], [height - 1 + RIM, width - 1 + RIM], [height - 1 + RIM, -RIM]];
    const centre = at((height - 1) / 2, (width - 1) / 2);
    const sides = corners.map((corner, i) => { // top, right, bottom, left; the cells hide all but the rim
      const d = `M${centre}L${at(...corner)}L${at(...corners[(i + 1) % 4])}Z`;
      return element("path", { class: `hex-side ${look.stones[i % 2]}`, d });
    });
    const cells = view.names.map((_, point) => this.cell(...this.place(point))).join("");
    return [
      element("rect", { class: `ground ${look.ground}`, width: across, height: down, rx: 8 }),
      ...sides,
      element("path", { class: "hex-cells", d: cells }),
      ...view.columns.flatMap((name, column) => [label(name, -LABEL, column), label(name, height - 1 + LABEL, column)]),
      ...view.rows.flatMap((name, row) => [label(name, row, -LABEL), label(name, row, width - 1 + LABEL)]),
    ];
  },
};
