// A simulated Kafka cluster in a container, for Testcontainers for .NET 4 (the package Testcontainers).
//
// A broker tells its clients where to come back to, and Testcontainers publishes ports that are not known before the
// container runs. So the container first waits for a script, which is copied into it once the ports are known, and which
// starts the brokers with these addresses (Testcontainers' own KafkaBuilder does it in the same way).
//
//     await using var kafka = await TxnsimContainer.StartAsync("txnsim:latest", brokers: 3, topics: ["orders:3"]);
//     kafka.BootstrapServers; // of clients
//     kafka.ControlUri;       // faults, clock, brokers, by HTTP
//     kafka.ControlToken;     // Authorization: Bearer TOKEN
//     await kafka.VerifyAsync(); // throws where a fault that was armed never struck
using System;
using System.Collections.Generic;
using System.Linq;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using DotNet.Testcontainers.Builders;
using DotNet.Testcontainers.Containers;

namespace Txnsim.Testcontainers;

public sealed class TxnsimContainer : IAsyncDisposable
{
    /// <summary>Port of the first broker inside of the container; the others follow.</summary>
    public const ushort KafkaPort = 9092;

    /// <summary>The control port inside of the container.</summary>
    public const ushort ControlPort = 9080;

    private const string Starter = "/tmp/txnsim-start.sh";

    private readonly int brokers;

    private TxnsimContainer(IContainer container, int brokers, string controlToken)
    {
        Container = container;
        this.brokers = brokers;
        ControlToken = controlToken;
    }

    /// <summary>The container itself.</summary>
    public IContainer Container { get; }

    /// <summary>Where clients connect to (bootstrap.servers).</summary>
    public string BootstrapServers => Addresses(Container, brokers);

    /// <summary>The control port, for faults, the clock and all else: /openapi.json tells.</summary>
    public Uri ControlUri => new($"http://{Container.Hostname}:{Container.GetMappedPublicPort(ControlPort)}");

    /// <summary>What the control port wants: Authorization: Bearer TOKEN.</summary>
    public string ControlToken { get; }

    /// <summary>Starts a cluster, and waits until every broker serves.</summary>
    /// <param name="image">As built from the Containerfile.</param>
    /// <param name="brokers">How many; each takes a port.</param>
    /// <param name="topics">Those that are there from the start: orders:3.</param>
    /// <param name="transactionVersion">Level of the feature, 0 to 2; the newest unless given.</param>
    /// <param name="release">The release of Apache Kafka to behave as, such as 3.9.</param>
    /// <param name="properties">Of the brokers, by Kafka's names.</param>
    /// <param name="configure">More for the container: a network, a name.</param>
    /// <param name="ct">Cancels the start.</param>
    public static async Task<TxnsimContainer> StartAsync(
        string image,
        int brokers = 3,
        IEnumerable<string>? topics = null,
        int? transactionVersion = null,
        string? release = null,
        IReadOnlyDictionary<string, string>? properties = null,
        Func<ContainerBuilder, ContainerBuilder>? configure = null,
        CancellationToken ct = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(brokers, 1);
        var token = Guid.NewGuid().ToString("N");
        var environment = new Dictionary<string, string>
        {
            ["TXNSIM_BROKERS"] = brokers.ToString(),
            ["TXNSIM_PORT"] = KafkaPort.ToString(),
            ["TXNSIM_HTTP_PORT"] = ControlPort.ToString(),
            ["TXNSIM_TOKEN"] = token,
            ["TXNSIM_TOPICS"] = string.Join(",", topics ?? []),
            ["TXNSIM_TRANSACTION_VERSION"] = transactionVersion?.ToString() ?? "",
            ["TXNSIM_AS_VERSION"] = release ?? "",
        };
        foreach (var (name, value) in properties ?? new Dictionary<string, string>())
        {
            environment[VariableOf(name)] = value;
        }

        var builder = new ContainerBuilder(image)
            .WithEntrypoint("sh")
            .WithCommand("-c", $"while [ ! -f {Starter} ]; do sleep 0.05; done; exec sh {Starter}")
            .WithPortBinding(ControlPort, true)
            .WithWaitStrategy(Wait.ForUnixContainer().UntilHttpRequestIsSucceeded(
                request => request.ForPort(ControlPort).ForPath("/healthz")))
            .WithStartupCallback((container, cancelled) => container.CopyAsync(
                Encoding.UTF8.GetBytes(Script(Addresses(container, brokers))), Starter, ct: cancelled));
        builder = Enumerable.Range(KafkaPort, brokers).Aggregate(builder, (withPorts, port) => withPorts.WithPortBinding(port, true));
        builder = environment.Where(variable => variable.Value != "")
            .Aggregate(builder, (withVariables, variable) => withVariables.WithEnvironment(variable.Key, variable.Value));
        var started = new TxnsimContainer((configure ?? (configured => configured))(builder).Build(), brokers, token);
        await started.Container.StartAsync(ct).ConfigureAwait(false);
        return started;
    }

    /// <summary>Asks whether every fault that was armed has struck; call it before the container ends.</summary>
    /// <exception cref="InvalidOperationException">One never did.</exception>
    public async Task VerifyAsync(CancellationToken ct = default)
    {
        using var http = new HttpClient(new HttpClientHandler { UseProxy = false });
        using var request = new HttpRequestMessage(HttpMethod.Post, new Uri(ControlUri, "/api/v1/faults/verify"));
        request.Headers.Authorization = new AuthenticationHeaderValue("Bearer", ControlToken);
        using var response = await http.SendAsync(request, ct).ConfigureAwait(false);
        if (!response.IsSuccessStatusCode)
        {
            throw new InvalidOperationException(await response.Content.ReadAsStringAsync(ct).ConfigureAwait(false));
        }
    }

    /// <summary>Stops and removes the container.</summary>
    public ValueTask DisposeAsync() => Container.DisposeAsync();

    /// <summary>The environment variable that stands for a property, as in the image apache/kafka.</summary>
    internal static string VariableOf(string property) =>
        "KAFKA_" + property.Replace("_", "__").Replace("-", "___").Replace(".", "_").ToUpperInvariant();

    private static string Addresses(IContainer container, int brokers) => string.Join(
        ",", Enumerable.Range(KafkaPort, brokers).Select(port => $"{container.Hostname}:{container.GetMappedPublicPort(port)}"));

    private static string Script(string addresses) =>
        $"#!/bin/sh\nexport TXNSIM_ADVERTISED='{addresses}'\nexec python -m txnsim.testing.container --ready-coordinators\n";
}
