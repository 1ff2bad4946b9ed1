<?php
// A commit survives the loss of its marker. SHOP names the program under test; it gets the address of the cluster.
$serve = [getenv('TXNSIM') ?: 'txnsim', 'serve', '--port', '0', '--http', '0', '--json', '--until-eof',
    '--ready-coordinators', '--topic', 'orders'];
$process = proc_open($serve, [['pipe', 'r'], ['pipe', 'w'], ['file', 'php://stderr', 'w']], $pipes);
$ready = json_decode(fgets($pipes[1]), true);

function ask(string $path, ?array $body = null): mixed
{
    global $ready;
    $post = ['method' => 'POST', 'content' => json_encode($body ?? (object) []), 'header' => 'Content-Type: application/json'];
    $http = ['ignore_errors' => true, 'timeout' => 60] + ($body === null ? [] : $post);
    $answer = file_get_contents($ready['http'] . $path, false, stream_context_create(['http' => $http]));
    if (!preg_match('/ 20\d /', $http_response_header[0])) {
        throw new RuntimeException("$path: $answer");
    }
    return json_decode($answer, true);
}

ask('/api/v1/faults', ['id' => 'lost', 'point' => 'peer.request', 'api' => 'WriteTxnMarkers', 'limit' => 1,
    'action' => ['do' => 'drop']]);
passthru(escapeshellarg(getenv('SHOP')) . ' ' . escapeshellarg($ready['bootstrap']), $status);
if ($status !== 0) {
    throw new RuntimeException("SHOP ended with $status");
}
ask('/api/v1/faults/lost/wait');
ask('/api/v1/clock', ['advance_ms' => 31_000]); // request.timeout.ms is 30 s
ask('/api/v1/assertions/exactly-once', ['input' => ['one order'], 'output' => 'orders']);
ask('/api/v1/reset', ['to' => 'start']); // a fresh cluster on the same ports, for the next test
fclose($pipes[0]); // ends the cluster
proc_close($process);
echo "passed\n";
