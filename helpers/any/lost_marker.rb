# A commit survives the loss of its marker. SHOP names the program under test; it gets the address of the cluster.
require "json"
require "net/http"
require "open3"

serve = [ENV.fetch("TXNSIM", "txnsim"), *%w[serve --port 0 --http 0 --json --until-eof --ready-coordinators --topic orders]]
Open3.popen2(*serve) do |stdin, stdout|
  ready = JSON.parse(stdout.gets)
  ask = lambda do |path, body = nil|
    uri = URI(ready["http"] + path)
    answer = body ? Net::HTTP.post(uri, body.to_json) : Net::HTTP.get_response(uri)
    raise "#{path}: #{answer.body}" unless answer.is_a?(Net::HTTPSuccess)

    JSON.parse(answer.body)
  end

  ask.("/api/v1/faults", { id: "lost", point: "peer.request", api: "WriteTxnMarkers", limit: 1, action: { do: "drop" } })
  system(ENV.fetch("SHOP"), ready["bootstrap"], exception: true)
  ask.("/api/v1/faults/lost/wait")
  ask.("/api/v1/clock", { advance_ms: 31_000 }) # request.timeout.ms is 30 s
  ask.("/api/v1/assertions/exactly-once", { input: ["one order"], output: "orders" })
  ask.("/api/v1/reset", {}) # a fresh cluster on the same ports, for the next test
  stdin.close # ends the cluster
end
puts "passed"
