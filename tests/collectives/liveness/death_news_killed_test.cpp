// Ranks as processes, each on a host of its own with an agent that this test plays: what the survivors see
// when one is killed.
#include <sys/wait.h>

#include <csignal>
#include <memory>
#include <mutex>
#include <thread>

#include "rendezvous/worker/life_table.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/rank_processes.hpp"

using namespace ddprun;

namespace {

// One for each host, with a table each; what one sees, all announce.
class PlayedAgents {
  public:
    explicit PlayedAgents(int hosts) {
        for (int i = 0; i < hosts; ++i) tables_.push_back(*LifeTable::create());
    }
    ~PlayedAgents() {
        stop_.store(true);
        for (std::size_t i = 0; i < watchers_.size(); ++i)
            tables_[watched_[i].first].wake_watcher(watched_[i].second);
        for (std::thread& watcher : watchers_) watcher.join();
    }
    PlayedAgents(const PlayedAgents&) = delete;
    PlayedAgents& operator=(const PlayedAgents&) = delete;

    std::string place(int host, int slot) {
        return to_string(tables_[static_cast<std::size_t>(host)].slot(slot));
    }
    void watch(int host, int slot) {
        watched_.emplace_back(static_cast<std::size_t>(host), slot);
        watchers_.emplace_back([this, &table = tables_[static_cast<std::size_t>(host)], slot] {
            while (!stop_.load()) {
                if (const auto life = table.take_death(slot)) announce(*life);
                table.wait_for_death(slot, stop_);
            }
        });
    }
    int announced() {
        const std::lock_guard lock(mutex_);
        return announced_;
    }

  private:
    void announce(std::uint64_t life) {
        const std::lock_guard lock(mutex_);
        if (life == 0) return;
        ++announced_;
        for (LifeTable& table : tables_) table.announce(life);
    }

    std::vector<LifeTable> tables_;
    std::vector<std::pair<std::size_t, int>> watched_;
    std::vector<std::thread> watchers_;
    std::mutex mutex_;
    int announced_ = 0;
    std::atomic<bool> stop_{false};
};

void require_output(RankProcesses& ranks, int rank, const std::string& expected) {
    ranks.close_input(rank);
    const RankProcesses::Result result = ranks.finish(rank, kHangGuard);
    INFO("rank " << rank << " printed: " << result.output);
    REQUIRE(result.output.find(expected) != std::string::npos);
}

std::vector<std::string> death(const std::string& call, const std::string& end, int victim,
                               int mebibytes = 0) {
    return {DDPRUN_DEATH_PROGRAM, call, end, std::to_string(victim), std::to_string(mebibytes)};
}

void await_ready(RankProcesses& ranks, int world_size) {
    for (int rank = 0; rank < world_size; ++rank) ranks.wait_for(rank, "ready", kHangGuard);
}

}  // namespace

TEST_CASE("a rank killed alone on its host is named though its connections stay open", "[word]") {
    for (const char* call : {"small", "large", "child"}) {
        for (const int world_size : {2, 4}) {
            const int victim = world_size - 1;
            INFO(call << ", " << world_size << " ranks");
            PlayedAgents agents(world_size);
            // A child of the victim's holds its connections, so that only the word can tell.
            RankProcesses ranks(world_size, death(call, "cloned", victim),
                                [&](int rank, Environment& environment) {
                                    environment["DDPRUN_HOSTID"] = "host" + std::to_string(rank);
                                    environment["DDPRUN_TRANSPORT"] = "tcp";
                                    environment["DDPRUN_LIFE"] = agents.place(rank, 0);
                                });
            for (int rank = 0; rank < world_size; ++rank) agents.watch(rank, 0);
            await_ready(ranks, world_size);
            ranks.kill(victim, SIGKILL);
            for (int rank = 0; rank < victim; ++rank)
                require_output(ranks, rank, "error peer_died " + std::to_string(victim) + ':');
            ranks.close_input(victim);
            ranks.finish(victim, kHangGuard);
            // The survivors have left in order.
            REQUIRE(agents.announced() == 1);
        }
    }
}

TEST_CASE("a rank killed is named by all on its own host and on others, whatever its memory", "[word]") {
    for (const int victim : {0, 3}) {
        PlayedAgents agents(2);
        RankProcesses ranks(4, death("large", "killed", victim, 256),
                            [&](int rank, Environment& environment) {
                                environment["DDPRUN_HOSTID"] = "host" + std::to_string(rank / 2);
                                environment["DDPRUN_LIFE"] = agents.place(rank / 2, rank % 2);
                            });
        for (int rank = 0; rank < 4; ++rank) agents.watch(rank / 2, rank % 2);
        await_ready(ranks, 4);
        ranks.kill(victim, SIGKILL);
        for (int rank = 0; rank < 4; ++rank) {
            if (rank != victim)
                require_output(ranks, rank, "error peer_died " + std::to_string(victim) + ':');
        }
    }
}

TEST_CASE("an exit on one host keeps its meaning beside the word", "[word]") {
    for (int repeat = 0; repeat < 5; ++repeat) {
        for (const int world_size : {2, 4}) {
            PlayedAgents agents(1);
            RankProcesses ranks(world_size, death("small", "exit", 1),
                                [&](int rank, Environment& environment) {
                                    environment["DDPRUN_TRANSPORT"] = "auto";
                                    environment["DDPRUN_LIFE"] = agents.place(0, rank);
                                });
            for (int rank = 0; rank < world_size; ++rank) agents.watch(0, rank);
            await_ready(ranks, world_size);
            ranks.close_input(1);
            for (int rank = 0; rank < world_size; ++rank) {
                if (rank != 1) require_output(ranks, rank, "error peer_left 1:");
            }
            REQUIRE(agents.announced() == 0);
        }
    }
}

TEST_CASE("ranks get on without a table, and two of one slot with one word", "[word]") {
    PlayedAgents agents(1);
    const std::vector<std::string> values{"",      "nonsense",         "1:2:999",
                                          "1:0:0", agents.place(0, 7), agents.place(0, 7)};
    const int world_size = static_cast<int>(values.size());
    RankProcesses ranks(world_size, {DDPRUN_COLLECTIVE_PROGRAM, "check-all"},
                        [&](int rank, Environment& environment) {
                            environment["DDPRUN_LIFE"] = values[static_cast<std::size_t>(rank)];
                        });
    for (int rank = 0; rank < world_size; ++rank) {
        const std::string name = "rank " + std::to_string(rank) + " of " + std::to_string(world_size);
        require_output(ranks, rank, name + ": ok");
    }
}
