// Candidate: an agent in the election of a job's host, what it is told, and what its tests share.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/etcd/etcd_election.hpp"
#include "tests/rendezvous/etcd/fake_gateway.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {

// One agent, and what its election says.
struct Candidate {
    Candidate(boost::asio::io_context& context, std::vector<Endpoint> etcd, const std::string& name = "a")
        : owner(EtcdElection::make(context.get_executor(),
                                   {.etcd = {.endpoints = std::move(etcd), .prefix = "/jobs"},
                                    .record = {.endpoint = {},
                                               .run_id = "job",
                                               .nodes = "2",
                                               .host = name,
                                               .pid = 1,
                                               .version = "1",
                                               .started = "now"},
                                    .port = 7,
                                    .lease_ttl = std::chrono::seconds(1),
                                    .join_timeout = std::chrono::seconds(1)},
                                   {.on_elected =
                                        [this](const Endpoint& at) {
                                            ++elected;
                                            here = at;
                                        },
                                    .on_claimed = [this] { ++claimed; },
                                    .on_host = [this](const Endpoint& found) { hosts.push_back(found); },
                                    .on_trouble = [this](const std::string& cause) { trouble = cause; },
                                    .on_failed = [this](const std::string& why) { failure = why; },
                                    .on_record = [this](const RecordNews& told) { news.push_back(told); }})) {
    }

    int elected = 0;
    int claimed = 0;
    std::vector<RecordNews> news;
    Endpoint here;
    std::vector<Endpoint> hosts;
    std::string trouble;
    std::string failure;
    std::shared_ptr<EtcdElection> owner;
    EtcdElection& election = *owner;
};

inline void run_until(boost::asio::io_context& context, const std::function<bool()>& is_reached) {
    const auto end = std::chrono::steady_clock::now() + kHangGuard;
    while (!is_reached() && std::chrono::steady_clock::now() < end)
        context.run_one_for(std::chrono::milliseconds(100));
    REQUIRE(is_reached());
}

inline void withdraw(boost::asio::io_context& context, Candidate& candidate) {
    bool done = false;
    candidate.election.withdraw([&done] { done = true; });
    run_until(context, [&done] { return done; });
}

inline std::chrono::steady_clock::time_point late() { return std::chrono::steady_clock::now() + kHangGuard; }

inline const Endpoint kHere{"10.0.0.1", 4711};
inline const Endpoint kThere{"10.0.0.2", 4712};

}  // namespace ddprun
