#include "tests/support/thread_ranks.hpp"

#include <exception>
#include <latch>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "collectives/session/bootstrap.hpp"
#include "collectives/session/place.hpp"
#include "tests/support/memory_store.hpp"

namespace ddprun {
namespace {

std::string list(const std::vector<int>& ranks) {
    std::string text = "{";
    for (const int rank : ranks) text += ' ' + std::to_string(rank);
    return text + " }";
}

}  // namespace

void run_ranks(int world_size, const std::function<void(int rank)>& body) {
    std::mutex mutex;
    std::exception_ptr first;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_size; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                body(rank);
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (!first) first = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    if (first) std::rethrow_exception(first);
}

void run_communicators(int world_size, const std::function<void(Communicator&)>& body,
                       const CommunicatorOptions& options) {
    run_on_hosts(std::vector<std::string>(static_cast<std::size_t>(world_size)), body, options);
}

void run_on_hosts(const std::vector<std::string>& hosts, const std::function<void(Communicator&)>& body,
                  const CommunicatorOptions& options, int sockets_per_peer) {
    const auto data = std::make_shared<MemoryStoreData>();
    const int world_size = static_cast<int>(hosts.size());
    std::latch joined(world_size);
    run_ranks(world_size, [&](int rank) {
        Place place{rank, world_size, -1, -1, 0, read_transport(current_environment())};
        place.host.host_id = hosts[static_cast<std::size_t>(rank)];
        place.host.sockets_per_peer = sockets_per_peer;
        place.nccl = read_nccl_settings(current_environment(), options, rank);
        std::optional<Communicator> communicator;
        try {
            communicator.emplace(world_size == 1
                                     ? Communicator::connect("tcp://127.0.0.1:1", 0, 1, options)
                                     : Communicator(open_session(std::make_shared<MemoryStore>(data),
                                                                 "127.0.0.1", place, options)));
        } catch (...) {
            joined.count_down();
            throw;
        }
        joined.arrive_and_wait();
        body(*communicator);
    });
}

CommunicatorOptions short_operations() {
    CommunicatorOptions options;
    options.operation_timeout = std::chrono::seconds(3);
    return options;
}

std::string text_of(const Hosts& hosts) {
    std::string text;
    for (const std::string& host : hosts) text += host;
    return text;
}

Hosts host_names(int hosts, int ranks) {
    std::vector<std::string> names;
    for (int rank = 0; rank < hosts * ranks; ++rank)
        names.emplace_back(1, static_cast<char>('a' + rank / ranks));
    return names;
}

void expect(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error(what);
}

CollectiveError expect_error(const std::function<void()>& body) {
    try {
        body();
    } catch (const CollectiveError& error) {
        return error;
    }
    throw std::runtime_error("expected a CollectiveError, but nothing was thrown");
}

CollectiveError expect_error(CollectiveErrorCode code, const std::vector<int>& culprits,
                             const std::function<void()>& body) {
    CollectiveError error = expect_error(body);
    expect(error.code() == code && error.culprits() == culprits,
           "expected " + std::string(name_of(code)) + ' ' + list(culprits) + ", got " +
               std::string(name_of(error.code())) + ' ' + list(error.culprits()) + ": " + error.what());
    return error;
}

}  // namespace ddprun
