// A job on machines that die, freeze, are cut off and come back, with coordinators that move. Every step some
// of that happens at random, and what must hold is checked.
#pragma once

#include <algorithm>

#include "rendezvous/control/coordinator_client.hpp"
#include "tests/rendezvous/link/simulated_agent.hpp"
#include "tests/support/simulated_clock.hpp"

namespace ddprun {

class TakeoverWorld {
  public:
    // Who leads the job when its coordinator is lost: most of its members, or one of them as etcd says.
    enum class Decider { majority, etcd };

    TakeoverWorld(unsigned seed, Decider decider);

    void step();
    void end_faults();
    // From now on nothing but that happens, until end_faults().
    void stay_calm() { calm_ = true; }
    // All machines at once, or some of them, for up to this time; they go on one after the other, within half
    // the limit.
    void stand_still(std::chrono::milliseconds longest, bool all);
    bool over() const;

    // An agent is being told something by the coordinator that is in its process, which takes no time.
    bool is_between();
    bool stands_still() const {
        return std::any_of(agents_.begin(), agents_.end(),
                           [this](const auto& one) { return one.stands_still(now_); });
    }
    // On all machines that may take part.
    bool works() const {
        return std::count_if(agents_.begin(), agents_.end(),
                             [this](const auto& one) { return works(one); }) >= machines_ - spares_;
    }

    int takeovers() const { return takeovers_; }
    int rounds() const { return rounds_; }
    int restarts() const { return restarts_; }  // the most that a round had behind it
    std::size_t messages() const { return messages_; }
    std::string state() const;

  private:
    int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
    SimulatedAgent& at(int machine) { return agents_.at(static_cast<std::size_t>(machine)); }
    SimulatedAgent* living(Where where);
    // By the clock of its machine, like all times that an agent has in mind.
    TimePoint time_of(const SimulatedAgent& agent) const {
        return clocks_.at(static_cast<std::size_t>(agent.where.machine)).at(now_);
    }
    Hello hello_of(const SimulatedAgent& agent) const;
    CoordinatorOptions options_of(const SimulatedAgent& agent) const;

    void be_born(int machine);
    void die(SimulatedAgent& agent);
    void fault();
    void jump(const SimulatedAgent& agent);
    void work(SimulatedAgent& agent);

    void act(SimulatedAgent& agent);
    bool gives_up(SimulatedAgent& agent);
    void host(SimulatedAgent& agent, std::optional<MemberList> predecessor);
    void stop_hosting(SimulatedAgent& agent);
    void deliver(SimulatedAgent& host, const Coordinator::Outbox& outbox);
    void serve(SimulatedAgent& host);
    void shine(SimulatedAgent& host);

    void hold(SimulatedAgent& agent);
    void fulfil(SimulatedAgent& agent);
    void answer(SimulatedAgent& agent, RecordNews::Kind kind);
    void campaign(SimulatedAgent& agent);
    void claim(SimulatedAgent& agent);

    void call(SimulatedAgent& agent, Where host, std::optional<Following> following);
    void join(SimulatedAgent& agent);
    void search(SimulatedAgent& agent);
    void hang_up(SimulatedAgent& agent);
    void lose(SimulatedAgent& agent, CoordinatorLoss loss);
    void listen(SimulatedAgent& agent);
    void receive(SimulatedAgent& agent, const ControlMessage& message);
    void take(SimulatedAgent& agent, const ControlMessage& message);
    void say(SimulatedAgent& agent, const ControlMessage& message);
    void follow(SimulatedAgent& agent, const Lead& lead);
    void begin_round(SimulatedAgent& agent, const RoundReady& ready);
    void stop(SimulatedAgent& agent);
    void hasten(SimulatedAgent& agent);
    void look_at_workers(SimulatedAgent& agent);
    bool works(const SimulatedAgent& agent) const;
    void check_alone(const SimulatedAgent& agent);

    std::mt19937 random_;
    int machines_;
    bool are_alike_;  // agents of one name and one pid, as in containers
    bool by_etcd_;
    SimulatedNetwork network_;
    SimulatedRegister register_;
    std::vector<SimulatedAgent> agents_;
    std::vector<SimulatedClock> clocks_;
    std::vector<TimePoint> next_jumps_;
    TimePoint now_{};  // of the world
    int min_nodes_ = 0, spares_ = 0, max_restarts_ = 0;
    bool faulty_ = true, calm_ = false;
    int takeovers_ = 0, rounds_ = 0, restarts_ = 0, jobs_ = 0;
    std::size_t messages_ = 0;
    // Of a job, by epoch and round: which ranks there are, and of how many.
    std::map<std::string, std::map<std::pair<int, int>, std::map<int, RoundReady>>> memberships_;
};

}  // namespace ddprun
