// JoinStatus is fed with each failed attempt and each word of the coordinator, and returns the line to print,
// or an empty one. The first moments of a start are silent. Afterwards each distinct cause and each change of
// the nodes that are there has one line, and every kReminderPeriod the last of these lines comes again. All
// lines say how long the agent has waited and how long it may. On a terminal there is one passing line
// instead, renewed every kUpdatePeriod.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/net/socket_owner.hpp"

namespace ddprun {
inline namespace launch {

class JoinStatus {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;
    using Duration = std::chrono::milliseconds;

    static constexpr Duration kReminderPeriod = std::chrono::seconds(30);
    static constexpr Duration kUpdatePeriod = std::chrono::seconds(1);
    // kFirstTroubleDelay: how long an agent that joins does not report trouble; after that each change is
    // reported.
    static constexpr std::chrono::seconds kFirstTroubleDelay{3};
    // kMaxCauses: how many distinct causes are printed; a resolver that words each failure anew must not fill
    // the screen.
    static constexpr std::size_t kMaxCauses = 32;

    // JoinStatus says nothing about trouble in the first `first_delay`; the agent gives up after `timeout`.
    // `advice` says what the user may have forgotten; reminders repeat it. Empty: none.
    JoinStatus(TimePoint start, Duration first_delay, Duration timeout, std::string advice);

    // Begins again after a round: nodes are awaited anew.
    void begin_again(TimePoint now);

    // Takes the cause for which an attempt to reach the coordinator failed.
    std::string trouble(const std::string& cause, TimePoint now);

    // Returns true if trouble is worth a line by now.
    bool speaks(TimePoint now) const { return now >= speaks_from_; }

    // Takes what the coordinator says about which nodes are there (the coordinator has waited before it said
    // so).
    std::string waiting(const Waiting& status, TimePoint now);

    // Takes the news that the job runs without this node, for an unknown time. No timeout counts then, and
    // nothing more is said.
    std::string parked(const Parked& status);

    // Returns the passing line as it is now; empty: none.
    std::string passing(TimePoint now) const;

    // Takes the news that the coordinator hosted here refused another agent. Lines name that refusal until
    // another node joins.
    std::string refused(const PeerRefused& other);

    // Returns the end of a line for an agent that cannot host the rendezvous, because another process holds
    // the port: which process, where that can be seen, and what to do.
    static std::string port_taken(std::uint16_t port, const std::optional<PortOwner>& holder);

    // Returns the refusal of an agent that has given up, for this cause; `source`:
    // LaunchOptions::master_source.
    Refused given_up(const std::string& cause, const std::string& source) const;

    // Returns the refusal where the election says that there is no host for this agent.
    static Refused not_elected(const std::string& why);

    // Returns the refusal where the coordinator that this agent hosts cannot go on.
    static Refused host_failed(const std::string& what);

    // Returns when the next reminder is due; remind() returns its line. Without any news yet there is none.
    TimePoint reminder_due() const { return reminder_due_; }
    std::string remind(TimePoint now);

  private:
    std::string time_text(TimePoint::duration age) const;

    TimePoint start_;
    TimePoint speaks_from_;
    TimePoint reminder_due_;
    Duration timeout_;
    std::string advice_;
    std::string last_line_;  // said or not
    // awaited_ and the next three are the parts of last_line_, for a line that may be cut: the missing nodes,
    // how many are there, the newest refusal, the present nodes.
    std::string awaited_, count_, refused_, present_;
    int joined_ = 0;
    std::set<std::string> causes_;
};

}  // namespace launch
}  // namespace ddprun
