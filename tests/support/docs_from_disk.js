// A page that is opened from disk may start no worker from a file: a hidden frame stands for it.
if (location.protocol === 'file:') {
  window.Worker = class extends EventTarget {
    constructor (url) {
      super()
      const frame = document.createElement('iframe')
      frame.hidden = true
      document.body.append(frame)
      const frameWindow = frame.contentWindow
      this.ready = new Promise(resolve => { frameWindow.started = resolve })
      frameWindow.document.open()
      frameWindow.document.write('<body><script>postMessage = data => parent.postMessage(data, "*")\n' +
        'importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(loaded => {\n' +
        '  const script = document.createElement("script"); script.src = url; script.onload = loaded; document.body.append(script)\n' +
        '})), Promise.resolve())<\/script><script src="' + url + '" onload="started()"><\/script>')
      frameWindow.document.close()
      this.frameWindow = frameWindow
      addEventListener('message', event => {
        if (event.source !== frameWindow) return
        this.dispatchEvent(new MessageEvent('message', { data: event.data }))
        this.onmessage?.(event)
      })
    }

    async postMessage (data) {
      await this.ready
      this.frameWindow.dispatchEvent(new MessageEvent('message', { data: structuredClone(data) }))
    }

    terminate () { this.frameWindow.frameElement.remove() }
  }
  // Python in WebAssembly needs a server: a click on a story says which.
  document.addEventListener('click', event => {
    const link = event.target.closest('a[href*="simulator/index.html"]')
    if (!link) return
    event.preventDefault()
    event.stopImmediatePropagation()
    const note = document.createElement('div')
    note.className = 'admonition warning from-disk'
    note.innerHTML = '<p class="admonition-title">Stories play where the site is served</p>' +
      '<p>In its folder: <code>python -m http.server</code>. Then open <code></code>.</p>'
    const story = link.href.slice(link.href.indexOf('simulator/'))
    note.querySelectorAll('code')[1].textContent = 'http://localhost:8000/' + story
    document.querySelectorAll('.from-disk').forEach(old => old.remove())
    link.closest('p, table, ul').after(note)
  }, true)
}
