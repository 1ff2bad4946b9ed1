addEventListener('keydown', event => {
  const step = { ArrowRight: 1, PageDown: 1, ' ': 1, ArrowLeft: -1, PageUp: -1 }[event.key]
  if (!step) return
  event.preventDefault()
  scrollTo(0, (Math.round(scrollY / innerHeight) + step) * innerHeight)
})
