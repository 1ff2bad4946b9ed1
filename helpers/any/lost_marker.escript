#!/usr/bin/env escript
%% A commit survives the loss of its marker. SHOP names the program under test; it gets the address of the cluster.
main(_) ->
    {ok, _} = application:ensure_all_started(inets),
    Txnsim = os:find_executable(os:getenv("TXNSIM", "txnsim")),
    Serve = ["serve", "--port", "0", "--http", "0", "--json", "--until-eof", "--ready-coordinators", "--topic", "orders"],
    Port = open_port({spawn_executable, Txnsim}, [{args, Serve}, {line, 4096}, binary]),
    Ready = receive {Port, {data, {eol, Line}}} -> Line after 90000 -> error(not_ready) end,
    put(http, field("http", Ready)),
    post("/api/v1/faults", "{\"id\": \"lost\", \"point\": \"peer.request\", \"api\": \"WriteTxnMarkers\", \"limit\": 1,"
        " \"action\": {\"do\": \"drop\"}}"),
    Shop = open_port({spawn_executable, os:getenv("SHOP")}, [{args, [field("bootstrap", Ready)]}, exit_status]),
    receive {Shop, {exit_status, 0}} -> ok after 60000 -> error(shop) end,
    get_("/api/v1/faults/lost/wait"),
    post("/api/v1/clock", "{\"advance_ms\": 31000}"), % request.timeout.ms is 30 s
    post("/api/v1/assertions/exactly-once", "{\"input\": [\"one order\"], \"output\": \"orders\"}"),
    post("/api/v1/reset", "{}"), % a fresh cluster on the same ports, for the next test
    port_close(Port), % closes its standard input, which ends the cluster
    io:format("passed~n").

get_(Path) -> ask(get, {get(http) ++ Path, []}).
post(Path, Body) -> ask(post, {get(http) ++ Path, [], "application/json", Body}).

ask(Method, Request) ->
    case httpc:request(Method, Request, [{timeout, 60000}], []) of
        {ok, {{_, Status, _}, _, Body}} when Status div 100 =:= 2 -> Body;
        Other -> error(Other)
    end.

%% Since OTP 27 the module json does this.
field(Name, Json) ->
    {match, [Value]} = re:run(Json, "\"" ++ Name ++ "\":\"([^\"]*)\"", [{capture, all_but_first, list}]),
    Value.
