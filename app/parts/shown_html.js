// Shows HTML that the server wrote; every name in it is escaped there.
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".root");
  root.classList.toggle("dark", isDark(parentElement));
  if (root.innerHTML !== data) root.innerHTML = data;
}
