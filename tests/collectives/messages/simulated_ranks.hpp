// Simulation and SimulatedRank: messengers of several ranks whose threads take turns on one thread, in an
// order by lot. A sleep has no end of its own here: what nobody is woken for stands still, and is named.
//
// A thread goes on until it sleeps, yields or copies; which one is next is drawn from a seed, so that a run
// can be had again.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "collectives/messages/messenger.hpp"
#include "collectives/shm/message_layout.hpp"
#include "collectives/wire/membership.hpp"

namespace ddprun {
namespace message_simulation {

class Simulation {
  public:
    explicit Simulation(unsigned seed) : random_(seed) {}

    // True once in `of`, on average.
    bool once_in(unsigned of) { return draw(of) == 0; }
    std::size_t draw(std::size_t of) { return static_cast<std::size_t>(random_() % of); }

    // Also called by a thread.
    void thread(int rank, const std::string& name, std::function<void()> body) {
        threads_.push_back(std::make_unique<Thread>(rank, name, std::move(body)));
        Thread& one = *threads_.back();
        ::getcontext(&one.context);
        one.context.uc_stack.ss_sp = one.stack.get();
        one.context.uc_stack.ss_size = kStack;
        ::makecontext(&one.context, &Simulation::enter, 0);
    }
    // These are called by a thread. What a stopped rank's threads do, they do later.
    void yield() {
        wait_until([] { return true; });
    }
    void linger() {
        for (std::size_t turns = draw(8); turns > 0; --turns) yield();
    }
    void wait_until(std::function<bool()> ready) {
        running_->ready = std::move(ready);
        ::swapcontext(&running_->context, &main_);
    }
    // Says of a thread what it waits for, should it stand still.
    void waits_for(const std::string& what) { running_->waits_for = ", for " + what; }
    void stop(int rank) { stopped_[rank] = true; }
    void go_on(int rank) { stopped_[rank] = false; }

    // Returns what went wrong, or which threads stand still; empty: all have ended.
    std::string run() {
        now_ = this;
        for (long steps = 0; fault_.empty(); ++steps) {
            std::vector<Thread*> able;
            for (const auto& one : threads_) {
                if (!one->ended && !stopped_[one->rank] && one->ready()) able.push_back(one.get());
            }
            if (able.empty() || steps == kMostSteps) break;
            running_ = able[draw(able.size())];
            ::swapcontext(&main_, &running_->context);
        }
        for (const auto& one : threads_) {
            if (fault_.empty() && !one->ended) still_ += "\n" + one->name + one->waits_for;
        }
        return !fault_.empty() ? fault_ : still_.empty() ? "" : "these stand still:" + still_;
    }

  private:
    static constexpr std::size_t kStack = std::size_t{128} << 10;
    static constexpr long kMostSteps = 2'000'000;

    struct Thread {
        Thread(int of, std::string what, std::function<void()> does)
            : rank(of), name(std::move(what)), body(std::move(does)) {}
        int rank;
        std::string name;
        std::string waits_for;
        std::function<void()> body;
        std::unique_ptr<std::byte[]> stack{new std::byte[kStack]};
        ucontext_t context{};
        std::function<bool()> ready = [] { return true; };
        bool ended = false;
    };

    static void enter() {
        Simulation& simulation = *now_;
        Thread& self = *simulation.running_;
        try {
            self.body();
        } catch (const std::exception& error) {
            simulation.fault_ = self.name + ": " + error.what();
        }
        self.ended = true;
        ::swapcontext(&self.context, &simulation.main_);
    }

    inline static Simulation* now_ = nullptr;
    std::mt19937 random_;
    std::vector<std::unique_ptr<Thread>> threads_;
    std::map<int, bool> stopped_;
    Thread* running_ = nullptr;
    ucontext_t main_{};
    std::string fault_;
    std::string still_;
};

// What is between two ranks of different hosts, in one direction: as many frames as fit, the others wait with
// their sender.
struct Wire {
    static constexpr std::size_t kRoom = 3;
    struct Frame {
        MessageFrame head;
        std::vector<std::byte> payload;
    };
    std::deque<Frame> frames;
    std::deque<Frame> unsent;
};

// Frames between ranks of different hosts, as TcpMessageLine has them.
class SimulatedLine final : public MessageLine {
  public:
    static constexpr std::size_t kEager = std::size_t{16} << 10;
    static constexpr std::uint64_t kCreditStep = std::uint64_t{64} << 10;

    SimulatedLine(int peer, Wire& out, Wire& in) : peer_(peer), out_(out), in_(in) {}

    bool put(const MessageFrame& frame, const std::byte* payload) override {
        if (out_.unsent.size() >= 4 && !flush() && out_.unsent.size() >= 4) return false;
        const bool carries = frame.kind == FrameKind::eager || frame.kind == FrameKind::piece;
        out_.unsent.push_back(
            {frame, carries ? std::vector(payload, payload + frame.bytes) : std::vector<std::byte>()});
        flush();
        return true;
    }
    bool take(MessageFrame& frame, const std::byte*& payload) override {
        while (!in_.frames.empty()) {
            taken_ = std::move(in_.frames.front());
            in_.frames.pop_front();
            frame = taken_.head;
            payload = taken_.payload.data();
            if (frame.kind != FrameKind::credit) return true;
            handed_on_by_peer_ = frame.tag;
        }
        return false;
    }
    void release() override {}
    bool is_ready() const noexcept override { return true; }
    bool is_exhausted() override { return in_.frames.empty(); }
    std::size_t eager_limit() const noexcept override { return kEager; }
    std::size_t piece_limit() const noexcept override { return kEager; }
    void set_handed_on(std::uint64_t amount) override { handed_on_ = amount; }
    std::uint64_t handed_on_by_peer() override { return handed_on_by_peer_; }
    bool flush() override {
        if (handed_on_ - told_ >= kCreditStep) {
            told_ = handed_on_;
            out_.unsent.push_back({{FrameKind::credit, 0, 0, told_, 0, 0}, {}});
        }
        for (; !out_.unsent.empty() && out_.frames.size() < Wire::kRoom; out_.unsent.pop_front())
            out_.frames.push_back(std::move(out_.unsent.front()));
        return out_.unsent.empty();
    }
    // No descriptors: numbers that poll() of SimulatedSurroundings knows.
    void add_descriptors(std::vector<pollfd>& descriptors) override {
        descriptors.push_back({-2 - peer_, POLLIN, 0});
        if (!out_.unsent.empty()) descriptors.push_back({-2 - peer_, POLLOUT, 0});
    }

  private:
    int peer_;
    Wire& out_;
    Wire& in_;
    Wire::Frame taken_;
    std::uint64_t handed_on_ = 0;
    std::uint64_t told_ = 0;
    std::uint64_t handed_on_by_peer_ = 0;
};

class SimulatedSurroundings;

// Ranks on hosts, a letter for each rank, and what they have in common.
class SimulatedRanks {
  public:
    SimulatedRanks(Simulation& simulation, const std::string& hosts);

    int size() const { return static_cast<int>(ranks_.size()); }
    Messenger& messenger(int rank) { return *ranks_[static_cast<std::size_t>(rank)].messenger; }
    // The rank closes its messenger and says goodbye, and the others hear it.
    void leave(int rank) {
        messenger(rank).close(Deadline::max());
        ranks_[static_cast<std::size_t>(rank)].left = true;
        tell_all();
    }
    // All that was put between hosts has come.
    bool is_quiet() const {
        return std::ranges::all_of(
            wires_, [](const auto& one) { return one.second.frames.empty() && one.second.unsent.empty(); });
    }
    // Of copies from the memory of others.
    void let_copies_be(std::function<Copied()> outcome) { outcome_ = std::move(outcome); }

  private:
    friend class SimulatedSurroundings;
    static constexpr std::size_t kPage = 4096;
    struct Rank {
        Membership membership;
        std::function<void()> hook;
        bool left = false;
        std::unique_ptr<Messenger> messenger;
    };
    void tell_all() {
        for (const Rank& one : ranks_) {
            if (one.hook) one.hook();
        }
    }

    Simulation& simulation_;
    std::map<char, std::unique_ptr<std::byte[]>> memories_;  // by host
    std::map<std::pair<int, int>, Wire> wires_;              // from, to
    std::function<Copied()> outcome_ = [] { return Copied::all; };
    std::optional<Verdict> verdict_;
    std::vector<Rank> ranks_;
};

class SimulatedSurroundings final : public MessageSurroundings {
  public:
    SimulatedSurroundings(SimulatedRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {}

    std::optional<Verdict> verdict() const override { return ranks_.verdict_; }
    std::optional<std::uint64_t> left_after(int rank) const override {
        return ranks_.ranks_[static_cast<std::size_t>(rank)].left ? std::optional<std::uint64_t>(0)
                                                                  : std::nullopt;
    }
    Verdict declare(const Verdict& verdict) override {
        if (!ranks_.verdict_) ranks_.verdict_ = verdict;
        ranks_.tell_all();
        return *ranks_.verdict_;
    }
    void on_news(std::function<void()> hook) override {
        ranks_.ranks_[static_cast<std::size_t>(rank_)].hook = std::move(hook);
    }
    std::unique_ptr<MessageLine> connect(int rank) override {
        return std::make_unique<SimulatedLine>(rank, wire(rank_, rank), wire(rank, rank_));
    }
    Copied copy_from(std::int32_t, std::uint64_t place, void* out, std::size_t bytes) override {
        simulation().linger();
        const Copied outcome = ranks_.outcome_();
        if (outcome == Copied::all) std::memcpy(out, reinterpret_cast<const void*>(place), bytes);
        simulation().linger();
        return outcome;
    }
    void make_thread(std::function<void()> body) override {
        ++threads_;
        simulation().thread(rank_, "helper of " + std::to_string(rank_), [this, body = std::move(body)] {
            body();
            --threads_;
        });
    }
    void join_threads() override {
        simulation().wait_until([this] { return threads_ == 0; });
    }
    void sleep_on(const std::atomic<std::uint32_t>& bell, std::uint32_t count, Deadline end) override {
        simulation().yield();
        simulation().wait_until([&] { return bell.load() != count || has_passed(end); });
    }
    void poll(std::vector<pollfd>& descriptors, Deadline end) override {
        simulation().wait_until([&] {
            // The simulated ones are negative, which the system passes over.
            if (has_passed(end) || ::poll(descriptors.data(), descriptors.size(), 0) > 0) return true;
            return std::any_of(descriptors.begin(), descriptors.end(), [&](const pollfd& one) {
                const int peer = -2 - one.fd;
                if (one.fd >= 0) return false;
                return one.events == POLLIN ? !wire(peer, rank_).frames.empty()
                                            : wire(rank_, peer).frames.size() < Wire::kRoom;
            });
        });
    }
    void sleep_until_called(std::unique_lock<std::mutex>& lock) override {
        const auto calls = calls_;
        lock.unlock();
        simulation().wait_until([&] { return calls_ != calls; });
        lock.lock();
    }
    void call_all() override { ++calls_; }
    void yield() override { simulation().yield(); }

  private:
    Simulation& simulation() const { return ranks_.simulation_; }
    Wire& wire(int from, int to) const { return ranks_.wires_[{from, to}]; }

    SimulatedRanks& ranks_;
    const int rank_;
    int threads_ = 0;
    std::uint64_t calls_ = 0;
};

inline SimulatedRanks::SimulatedRanks(Simulation& simulation, const std::string& hosts)
    : simulation_(simulation), ranks_(hosts.size()) {
    std::map<char, int> sizes;
    for (const char host : hosts) ++sizes[host];
    for (const auto& [host, size] : sizes) {
        if (size > 1) memories_[host] = std::make_unique<std::byte[]>(MessageLayout(size).size() + kPage);
    }
    for (int rank = 0; rank < size(); ++rank) {
        Rank& one = ranks_[static_cast<std::size_t>(rank)];
        one.membership.rank = rank;
        for (const char host : hosts) {
            Member member;
            member.host = std::string(1, host);
            one.membership.members.push_back(member);
        }
        const auto memory = memories_.find(hosts[static_cast<std::size_t>(rank)]);
        std::byte* place = memory == memories_.end() ? nullptr : memory->second.get();
        if (place != nullptr) place += kPage - reinterpret_cast<std::uintptr_t>(place) % kPage;
        one.messenger = std::make_unique<Messenger>(
            MessengerPlace{&one.membership, place, false, std::chrono::microseconds(0)},
            std::make_unique<SimulatedSurroundings>(*this, rank), std::chrono::hours(1));
    }
}

}  // namespace message_simulation
}  // namespace ddprun
