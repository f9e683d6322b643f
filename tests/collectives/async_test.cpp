// Operations that go on beside their caller. Ranks are threads here.
#include <latch>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/session/executor.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

std::vector<std::int64_t> values(std::size_t count, int rank) {
    std::vector<std::int64_t> data(count);
    std::iota(data.begin(), data.end(), static_cast<std::int64_t>(rank) * 1000);
    return data;
}

// The sum over n ranks of values(count, rank).
std::vector<std::int64_t> summed(std::size_t count, int n) {
    std::vector<std::int64_t> data(count);
    for (std::size_t i = 0; i < count; ++i)
        data[i] = n * static_cast<std::int64_t>(i) + std::int64_t{1000} * n * (n - 1) / 2;
    return data;
}

// A backend that lets the test decide when a task ends, and what it ends with.
class HeldBackend final : public Backend {
  public:
    void run(const Task& task) override {
        std::unique_lock lock(mutex_);
        seen_.push_back(task.call.count);
        changed_.notify_all();
        changed_.wait(lock, [&] { return allowed_ >= seen_.size() || aborted_; });
        if (aborted_) throw CollectiveError(Code::aborted, "held");
        if (task.call.count == kFailing) throw CollectiveError(Code::timed_out, "failing");
    }
    std::vector<int> leave(std::chrono::steady_clock::time_point) override { return {}; }
    void abort(const std::string&) override {
        const std::lock_guard lock(mutex_);
        aborted_ = true;
        changed_.notify_all();
    }
    std::optional<Verdict> verdict() const override {
        return aborted_ ? std::optional(abort_verdict(0, "held")) : std::nullopt;
    }

    void allow(std::size_t tasks) {
        const std::lock_guard lock(mutex_);
        allowed_ += tasks;
        changed_.notify_all();
    }
    void wait_for_begun(std::size_t tasks) {
        std::unique_lock lock(mutex_);
        REQUIRE(changed_.wait_for(lock, kHangGuard, [&] { return seen_.size() >= tasks; }));
    }
    std::vector<std::size_t> seen() {
        const std::lock_guard lock(mutex_);
        return seen_;
    }

    static constexpr std::size_t kFailing = 13;

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::size_t> seen_;
    std::size_t allowed_ = 0;
    bool aborted_ = false;
};

Task task_of(std::size_t count) { return {{Operation::barrier, DataType::f32, ReduceOp::sum, -1, count}}; }

}  // namespace

TEST_CASE("started operations are carried out in order, and a call after them waits for them", "[async]") {
    auto owned = std::make_unique<HeldBackend>();
    HeldBackend& backend = *owned;
    Executor executor(std::move(owned), 1);
    const Work first = executor.start(task_of(1));
    const Work second = executor.start(task_of(2));
    backend.wait_for_begun(1);
    REQUIRE_FALSE(first.test());
    REQUIRE_FALSE(first.wait_for(std::chrono::milliseconds(1)));
    REQUIRE_FALSE(first.error());
    std::thread caller([&] { executor.run(task_of(3)); });
    backend.allow(1);
    first.wait();
    REQUIRE(first.test());
    backend.wait_for_begun(2);
    REQUIRE_FALSE(second.test());
    REQUIRE(backend.seen() == std::vector<std::size_t>{1, 2});
    backend.allow(2);
    caller.join();
    REQUIRE(second.test());
    REQUIRE(backend.seen() == std::vector<std::size_t>{1, 2, 3});
}

TEST_CASE("a failure goes to the Work of the operation that failed", "[async]") {
    auto owned = std::make_unique<HeldBackend>();
    HeldBackend& backend = *owned;
    Executor executor(std::move(owned), 1);
    backend.allow(3);
    const Work good = executor.start(task_of(1));
    const Work bad = executor.start(task_of(HeldBackend::kFailing));
    const Work copy = bad;
    REQUIRE_NOTHROW(good.wait());
    REQUIRE_THROWS_AS(bad.wait(), CollectiveError);
    REQUIRE_THROWS_AS(copy.wait_for(std::chrono::seconds(1)), CollectiveError);
    REQUIRE(bad.error()->code() == Code::timed_out);
    REQUIRE_FALSE(good.error());
}

TEST_CASE("whoever asked is told once that a Work has ended, and may wait for others then", "[async]") {
    auto owned = std::make_unique<HeldBackend>();
    HeldBackend& backend = *owned;
    Executor executor(std::move(owned), 1);
    constexpr int kTold = 20;
    std::latch told(kTold + 1);
    std::latch all_in(kTold);
    const Work first = executor.start(task_of(1));
    const Work bad = executor.start(task_of(HeldBackend::kFailing));
    const Work last = executor.start(task_of(2));
    // Each waits for all others and for what is carried out later: one thread for all would never get
    // through.
    for (int i = 0; i < kTold; ++i) {
        first.then([&](const Status& status) {
            if (status.ok()) all_in.arrive_and_wait();
            last.wait();
            told.count_down();
        });
    }
    bad.then([&](const Status& status) {
        if (status.code() == Code::timed_out) told.count_down();
    });
    backend.allow(3);
    told.wait();
    int at_once = 0;
    const auto caller = std::this_thread::get_id();
    bad.then([&](const Status& status) {
        if (std::this_thread::get_id() == caller && !status.ok()) ++at_once;
    });
    Work().then([&](const Status& status) { at_once += status.ok() ? 1 : 0; });
    REQUIRE(at_once == 2);
}

TEST_CASE("more than may be open at once wait for room", "[async]") {
    auto owned = std::make_unique<HeldBackend>();
    HeldBackend& backend = *owned;
    Executor executor(std::move(owned), 1);
    std::thread starter([&] {
        for (std::size_t i = 0; i <= kMaxStarted; ++i) executor.start(task_of(i + 100));
        executor.run(task_of(0));
    });
    backend.wait_for_begun(1);
    backend.allow(kMaxStarted + 2);
    starter.join();
    REQUIRE(backend.seen().size() == kMaxStarted + 2);
    REQUIRE(backend.seen().back() == 0);
}

TEST_CASE("a Work outlives its communicator, and one without an operation has ended well", "[async]") {
    std::optional<Work> kept;
    {
        auto comm = Communicator::connect("tcp://127.0.0.1:1", 0, 1);
        std::vector<float> data(10, 1.0F);
        kept = comm.async().all_reduce(std::span(data), ReduceOp::sum);
    }
    REQUIRE(kept->test());
    REQUIRE_NOTHROW(kept->wait());
    REQUIRE(Work().test());
    REQUIRE_NOTHROW(Work().wait());
    REQUIRE(Work().wait_for(std::chrono::milliseconds(0)));
    REQUIRE_FALSE(Work().error());
}

TEST_CASE("operations of both forms give the same results in any mixture", "[async]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : {1, 2, 4}) {
        run_communicators(n, [&](Communicator& comm) {
            std::mt19937 random(seed);
            std::vector<std::vector<std::int64_t>> buffers;
            std::vector<Work> works;
            for (int i = 0; i < 60; ++i) {
                const std::size_t count = random() % 3 == 0 ? random() % 60'000 : random() % 100;
                buffers.push_back(values(count, comm.rank()));
                if (random() % 3 == 0) {
                    comm.all_reduce(std::span(buffers.back()), ReduceOp::sum);
                    expect(buffers.back() == summed(count, n), "sum of a call");
                } else {
                    works.push_back(comm.async().all_reduce(std::span(buffers.back()), ReduceOp::sum));
                }
                if (random() % 5 == 0 || i == 59) {
                    for (const Work& work : works) work.wait();
                    for (const auto& buffer : buffers)
                        expect(buffer == summed(buffer.size(), n), "sum of a started call");
                }
            }
        });
    }
}

TEST_CASE("every operation can be started", "[async]") {
    for (const int n : {2, 3}) {
        run_communicators(n, [&](Communicator& comm) {
            const auto ranks = static_cast<std::size_t>(n);
            const auto own = static_cast<std::size_t>(comm.rank());
            const std::vector<float> mine{static_cast<float>(own), 1};
            std::vector<float> all(2 * ranks);
            std::vector<float> part(2);
            const std::span out(all);
            auto async = comm.async();
            async.all_gather(mine, out).wait();
            expect(all[2 * ranks - 2] == static_cast<float>(n - 1), "all_gather");
            async.reduce_scatter(all, std::span(part), ReduceOp::avg).wait();
            expect(part == std::vector<float>{static_cast<float>(own), 1}, "reduce_scatter");
            async.reduce(mine, std::span(part), premul_sum(2), 0).wait();
            expect(comm.rank() != 0 || part[1] == static_cast<float>(2 * n), "reduce");
            async.gather(mine, out, 1).wait();
            async.scatter(all, std::span(part), 1).wait();
            expect(part[0] == static_cast<float>(own), "scatter after gather");
            std::vector<float> swapped(2 * ranks);
            async.all_to_all(all, std::span(swapped)).wait();
            expect(swapped[0] == all[2 * own] || comm.rank() != 1, "all_to_all");
            async.broadcast(std::span(part), 1).wait();
            expect(part[0] == 1, "broadcast");
            async.barrier().wait();
            const Work sent = comm.rank() == 0 ? async.send(std::span(mine), 1) : Work();
            if (comm.rank() == 1) async.recv(std::span(part), 0).wait();
            sent.wait();
            expect(comm.rank() != 1 || part[0] == 0, "recv");
        });
    }
}

TEST_CASE("a wrong call is refused at once, a failure ends all that was started", "[async]") {
    std::latch through(2);  // a barrier that one rank is through may still be news to the other
    run_communicators(2, [&](Communicator& comm) {
        CountDown here(through);
        expect_error(Code::invalid_argument, {},
                     [&] { comm.async().all_reduce(nullptr, nullptr, 1, DataType::f32, ReduceOp::sum); });
        std::vector<float> first(200'000);
        std::vector<float> second(10);
        if (comm.rank() == 1) {
            comm.barrier();
            here.now();
            through.wait();
            comm.abort("enough");
            return;
        }
        comm.async().barrier().wait();
        here.now();
        const Work lost = comm.async().all_reduce(std::span(first), ReduceOp::sum);
        const Work lost_too = comm.async().all_reduce(std::span(second), ReduceOp::sum);
        expect_error(Code::aborted, {1}, [&] { lost_too.wait(); });
        expect_error(Code::aborted, {1}, [&] { lost.wait(); });
        expect_error(Code::aborted, {1}, [&] { comm.barrier(); });
    });
}

TEST_CASE("several threads call one communicator", "[async]") {
    constexpr int kThreads = 4;
    for (const int n : {1, 2, 3}) {
        run_communicators(n, [&](Communicator& comm) {
            run_ranks(kThreads, [&](int thread) {
                for (int i = 0; i < 50; ++i) {
                    // All ask for the same, so that it does not matter whose call meets whose.
                    std::vector<int> ones(17, 1);
                    if ((i + thread) % 3 == 0) {
                        comm.all_reduce(std::span(ones), ReduceOp::sum);
                    } else if ((i + thread) % 3 == 1) {
                        comm.async().all_reduce(std::span(ones), ReduceOp::sum).wait();
                    } else {
                        std::vector<int> more(17, 1);
                        const Work first = comm.async().all_reduce(std::span(ones), ReduceOp::sum);
                        const Work second = comm.async().all_reduce(std::span(more), ReduceOp::sum);
                        second.wait();
                        expect(first.test() && more == std::vector<int>(17, n), "what came before has ended");
                    }
                    expect(ones == std::vector<int>(17, n), "a sum");
                }
            });
            // A third of the operations are two.
            comm.barrier();
        });
    }
}

TEST_CASE("calls of other threads end before finalize does, or are refused", "[async]") {
    auto comm = Communicator::connect("tcp://127.0.0.1:1", 0, 1);
    std::latch begun(3);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&, i] {
            std::vector<int> ones(3, 1);
            bool first = true;
            while (true) {
                const Status done = i == 0 ? comm.attempt().barrier() : Status::of([&] {
                    comm.async().all_reduce(std::span(ones), ReduceOp::sum).wait();
                });
                if (!done.ok() && done.code() == Code::invalid_argument) return;
                if (std::exchange(first, false)) begun.count_down();
            }
        });
    }
    begun.wait();
    comm.finalize();
    for (std::thread& thread : threads) thread.join();
    REQUIRE_THROWS_AS(comm.finalize(), CollectiveError);
}
