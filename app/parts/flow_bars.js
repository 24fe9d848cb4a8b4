// Shows the bars that app/flow_bars.py wrote; every name in them is escaped there.
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".root");
  root.classList.toggle("dark", isDark(parentElement));
  if (root.innerHTML !== data) root.innerHTML = data;
}
