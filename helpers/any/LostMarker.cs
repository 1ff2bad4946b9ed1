// A commit survives the loss of its marker. SHOP names the program under test; it gets the address of the cluster.
using System.Diagnostics;
using System.Net.Http.Json;
using System.Text.Json;

var serve = "serve --port 0 --http 0 --json --until-eof --ready-coordinators --topic orders";
var start = new ProcessStartInfo(Environment.GetEnvironmentVariable("TXNSIM") ?? "txnsim", serve)
{
    RedirectStandardInput = true,
    RedirectStandardOutput = true,
};
using var txnsim = Process.Start(start)!;
var ready = JsonDocument.Parse(txnsim.StandardOutput.ReadLine()!).RootElement;
var bootstrap = ready.GetProperty("bootstrap").GetString()!;
using var http = new HttpClient { BaseAddress = new Uri(ready.GetProperty("http").GetString()!) };

async Task Checked(string path, HttpResponseMessage answer)
{
    if (!answer.IsSuccessStatusCode) throw new Exception($"{path}: {await answer.Content.ReadAsStringAsync()}");
}
async Task Get(string path) => await Checked(path, await http.GetAsync(path));
async Task Post(string path, object body) => await Checked(path, await http.PostAsJsonAsync(path, body));

await Post("/api/v1/faults", new { id = "lost", point = "peer.request", api = "WriteTxnMarkers", limit = 1, action = new { @do = "drop" } });
using var shop = Process.Start(Environment.GetEnvironmentVariable("SHOP")!, bootstrap);
await shop.WaitForExitAsync();
if (shop.ExitCode != 0) throw new Exception($"SHOP ended with {shop.ExitCode}");
await Get("/api/v1/faults/lost/wait");
await Post("/api/v1/clock", new { advance_ms = 31_000 }); // request.timeout.ms is 30 s
await Post("/api/v1/assertions/exactly-once", new { input = new[] { "one order" }, output = "orders" });
await Post("/api/v1/reset", new { }); // a fresh cluster on the same ports, for the next test
txnsim.StandardInput.Close(); // ends the cluster
await txnsim.WaitForExitAsync();
Console.WriteLine("passed");
