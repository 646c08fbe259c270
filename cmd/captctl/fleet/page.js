(() => {
  const table = document.querySelector("table.fleet"), controls = document.getElementById("controls")
  if (!table) return
  const body = table.tBodies[0], rows = [...body.rows]
  const sections = [...document.querySelectorAll("details")]
  const search = controls.querySelector("input"), state = controls.querySelector("select"), shown = controls.querySelector("output")
  const texts = rows.map((row, i) => (row.textContent + " " + sections[i].querySelector("summary").textContent).toLowerCase())
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/)
    let n = 0
    rows.forEach((row, i) => {
      const show = (!state.value || row.dataset.state === state.value) && words.every(word => texts[i].includes(word))
      row.hidden = sections[i].hidden = !show
      n += show
    })
    shown.textContent = n === rows.length ? "" : n + " of " + rows.length + " shown"
  }
  search.addEventListener("input", filter)
  state.addEventListener("change", filter)
  const numbers = new Intl.Collator(undefined, { numeric: true })
  const value = (row, column) => {
    const cell = row.cells[column], time = cell.querySelector("time")
    return time ? time.dateTime : cell.textContent
  }
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button")
    button.type = "button"
    button.append(...head.childNodes)
    head.append(button)
    button.addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort")
      head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending")
      body.append(...[...body.rows].sort((a, b) => direction * numbers.compare(value(a, head.cellIndex), value(b, head.cellIndex))))
    })
  }
  addEventListener("beforeprint", () => sections.forEach(section => { section.open = true }))
  controls.hidden = false
  filter()
})()
