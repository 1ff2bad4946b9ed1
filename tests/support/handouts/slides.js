addEventListener('keydown', event => {
  const by = { ArrowRight: 1, PageDown: 1, ' ': 1, ArrowLeft: -1, PageUp: -1 }[event.key]
  if (!by) return
  event.preventDefault()
  scrollTo(0, (Math.round(scrollY / innerHeight) + by) * innerHeight)
})
