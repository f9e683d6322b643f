#include "rendezvous/etcd/etcd_election.hpp"

#include "rendezvous/etcd/etcd_client.hpp"
#include "tests/rendezvous/etcd/candidate.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
using namespace std::chrono_literals;

TEST_CASE("etcd election: the first hosts, the second is told where, and the end leaves nothing") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    Candidate first(context, {etcd.endpoint()}), second(context, {etcd.endpoint()}, "b");
    first.election.campaign(late());
    run_until(context, [&] { return first.elected == 1; });
    CHECK(first.here == Endpoint{"127.0.0.1", 7});
    second.election.campaign(late());
    run_until(context, [&] { return etcd.asked["/v3/watch"] == 1; });
    CHECK(second.hosts.empty());
    first.election.publish(kHere);
    run_until(context, [&] { return !second.hosts.empty(); });
    second.election.settle();
    CHECK(second.hosts == std::vector{kHere});
    CHECK((first.hosts.empty() && second.elected == 0 && first.trouble.empty() && second.trouble.empty()));
    withdraw(context, second);
    CHECK(etcd.asked["/v3/lease/revoke"] == 0);
    withdraw(context, first);
    CHECK(etcd.host().value.empty());
    CHECK(etcd.asked["/v3/lease/revoke"] == 1);
    withdraw(context, first);
}

TEST_CASE("etcd election: where the host's key goes, the next one hosts") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    Candidate candidate(context, {etcd.endpoint()});
    etcd.write_host(to_json({to_string(kThere), "job", "2", "gone", 7, 0, "1", "before"}), 99);
    candidate.election.campaign(late());
    run_until(context, [&] { return etcd.asked["/v3/watch"] == 1; });
    run_until(context, [&] { return candidate.hosts == std::vector{kThere}; });
    // The host was lost, and the agent asks again: it is told the same until the lease is over.
    candidate.election.campaign(late());
    run_until(context, [&] { return candidate.hosts == std::vector{kThere, kThere}; });
    CHECK(candidate.elected == 0);
    run_until(context, [&] { return etcd.asked["/v3/watch"] == 2; });
    etcd.write_host("", 0);
    run_until(context, [&] { return candidate.elected == 1; });
}

TEST_CASE("etcd election: a host whose lease has run out writes its key again, or learns who was first") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    Candidate host(context, {etcd.endpoint()});
    host.election.campaign(late());
    run_until(context, [&] { return host.elected == 1; });
    host.election.publish(kHere);
    run_until(context, [&] { return etcd.host().value.find("4711") != std::string::npos; });
    etcd.end_lease(etcd.host().lease);
    run_until(context, [&] { return etcd.host().value.find("4711") != std::string::npos; });
    CHECK(host.elected == 1);
    CHECK(host.hosts.empty());
    etcd.end_lease(etcd.host().lease);
    etcd.write_host(to_json({to_string(kThere), "job", "2", "other", 7, 0, "1", "later"}), 99);
    run_until(context, [&] { return host.hosts == std::vector{kThere}; });
}

TEST_CASE("etcd election: an answer that was lost on the way does not lose the election") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    Candidate candidate(context, {etcd.endpoint()});
    bool lost = false;
    etcd.oddity = [&lost](const std::string& path) -> std::string {
        if (path != "/v3/kv/txn" || std::exchange(lost, true)) return "";
        return FakeGateway::kHangUp;
    };
    candidate.election.campaign(late());
    run_until(context, [&] { return candidate.elected == 1; });
    CHECK(lost);
    CHECK(etcd.asked["/v3/kv/txn"] == 1);
    CHECK(candidate.trouble.find("gives no answer of etcd's") != std::string::npos);
}

TEST_CASE("etcd election: of several endpoints one that answers is enough") {
    boost::asio::io_context context;
    FakeGateway etcd(context), away(context);
    away.oddity = [](const std::string&) { return FakeGateway::http("503 Service Unavailable", "not now"); };
    Candidate candidate(context, {away.endpoint(), {"127.0.0.1", 1}, etcd.endpoint()});
    candidate.election.campaign(late());
    run_until(context, [&] { return candidate.elected == 1; });
    CHECK(candidate.trouble.empty());
    CHECK(etcd.host().value.find("job") != std::string::npos);
}

TEST_CASE("etcd election: what says no for good ends it at once, in its own words") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    etcd.oddity = [](const std::string&) {
        return FakeGateway::http("400 Bad Request",
                                 R"({"message":"etcdserver: user name is empty","code":3})");
    };
    Candidate candidate(context, {etcd.endpoint()});
    candidate.election.campaign(late());
    run_until(context, [&] { return !candidate.failure.empty(); });
    const std::string where = to_string(etcd.endpoint());
    CHECK(candidate.failure == "etcd refuses to serve the rendezvous (--rdzv-endpoint " + where + "): " +
                                   where + " answers 400 Bad Request: etcdserver: user name is empty");
}

TEST_CASE("etcd election: odd answers are trouble, until the deadline") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    const std::string where = to_string(etcd.endpoint());
    const std::pair<std::string, std::string> rows[] = {
        {FakeGateway::http("200 OK", "hello"), "what listens at " + where + " does not answer as etcd does"},
        {FakeGateway::http("200 OK", std::string(EtcdClient::kMaxAnswerBytes + 1, ' ')), where + " "},
        {"SSH-2.0-OpenSSH_9.2\r\n", where + " gives no answer of etcd's: "},
        {FakeGateway::kHangUp, where + " gives no answer of etcd's: "},
        {FakeGateway::kSilence, where + " does not answer"},
        {FakeGateway::http("500 Internal Server Error", ""), where + " answers 500 Internal Server Error; "},
    };
    // How a candidate fails, with more time for it where it hears of another cause: its last answer may come
    // too late.
    const auto patiently = [&](const std::string& cause) {
        for (auto patience = 300ms;; patience *= 4) {
            Candidate candidate(context, {etcd.endpoint()});
            candidate.election.campaign(std::chrono::steady_clock::now() + patience);
            run_until(context, [&] { return !candidate.failure.empty(); });
            if (patience > 10s || candidate.failure.find(cause) != std::string::npos)
                return std::pair(candidate.failure, candidate.elected);
        }
    };
    for (const auto& [sent, cause] : rows) {
        INFO(cause);
        etcd.oddity = [&sent = sent](const std::string&) { return sent; };
        const auto [failure, elected] = patiently(cause);
        CHECK_THAT(failure,
                   Catch::StartsWith("no host was found in etcd (--rdzv-endpoint " + where + ") within ") &&
                       Catch::Contains(" s: " + cause) && Catch::Contains("--join-timeout"));
        CHECK(elected == 0);
    }
    etcd.oddity = nullptr;
    etcd.write_host("none of ours", 99);
    const std::string none = "the key /jobs/run_job/host in etcd is none of ddprun's";
    CHECK_THAT(patiently(none).first, Catch::Contains(none));
}

TEST_CASE("etcd election: it can be ended while etcd is silent, and destroyed at any time") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    etcd.oddity = [](const std::string&) { return FakeGateway::kSilence; };
    {
        Candidate candidate(context, {etcd.endpoint()});
        candidate.election.campaign(late());
        run_until(context, [&] { return etcd.asked["/v3/kv/range"] == 1; });
        const auto before = std::chrono::steady_clock::now();
        withdraw(context, candidate);
        CHECK(std::chrono::steady_clock::now() - before < EtcdClient::kRequestTimeout);
        CHECK(candidate.trouble.empty());
    }
    Candidate candidate(context, {etcd.endpoint()});
    candidate.election.campaign(late());
    run_until(context, [&] { return etcd.asked["/v3/kv/range"] == 2; });
}

TEST_CASE(
    "etcd election: an etcd whose watch has news each time, or that changes its mind, does not set the pace") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    Candidate candidate(context, {etcd.endpoint()});
    SECTION("news that are none") {
        etcd.write_host(to_json({to_string(kThere), "job", "2", "gone", 7, 0, "1", "before"}), 99);
        etcd.oddity = [](const std::string& path) {
            return path == "/v3/watch" ? FakeGateway::http("200 OK", R"({"result":{"events":[]}})"
                                                                     "\n")
                                       : "";
        };
    }
    SECTION("a key that is never there, and that nobody may write") {
        etcd.oddity = [](const std::string& path) {
            return path == "/v3/kv/txn" ? FakeGateway::http("200 OK", R"({"header":{"revision":"1"}})") : "";
        };
    }
    const auto start = std::chrono::steady_clock::now();
    candidate.election.campaign(late());
    // Each look reads two keys; the pauses before the last ones are of 100, 200, 300 ms.
    run_until(context, [&] { return etcd.asked["/v3/kv/range"] >= 2 * (EtcdElection::kFreeLooks + 4); });
    CHECK(std::chrono::steady_clock::now() - start >= 600ms);
    CHECK(candidate.elected == 0);
}

TEST_CASE("etcd election: a watch that says nothing new for ever is ended") {
    boost::asio::io_context context;
    FakeGateway etcd(context);
    etcd.oddity = [](const std::string&) {
        std::string said = "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n";
        while (said.size() < 2 * EtcdClient::kMaxAnswerBytes)
            said += R"({"result":{"created":true}})"
                    "\n";
        return said;
    };
    EtcdClient client({.endpoints = {etcd.endpoint()}, .prefix = "/jobs"});
    std::string text;
    boost::asio::co_spawn(context, client.watch(watch_key("/jobs/run_job/host", 1), late()),
                          [&](const std::exception_ptr&, const EtcdAnswer& answer) { text = answer.text; });
    run_until(context, [&] { return !text.empty(); });
    CHECK_THAT(text, Catch::EndsWith("says too much for an answer"));
}

}  // namespace ddprun
