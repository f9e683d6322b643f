// AgentWatcher: is told what becomes of an agent, and may ask and signal it.
//
// Everything is called on the agent's thread, from inside its run(), and in the order in which it happens. A watcher
// outlives the agent, and never throws but from began(); the controls may be used from handlers of the executor only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <optional>
#include <string>

#include "launcher/report/result_file.hpp"
#include "launcher/watch/agent_news.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun::inline launch {

struct AgentControls {
    std::function<AgentStatus()> status;
    // As if the launcher had been sent this signal; only for signals that it handles.
    std::function<void(int)> signal;
};

class AgentWatcher {
  public:
    virtual ~AgentWatcher() = default;

    // Whether the result given to ended() is to have the ends of the ranks of all nodes, which the coordinator then sends.
    virtual bool wants_all_ranks() const { return false; }

    // The agent begins; nothing has been started.
    virtual void began(const boost::asio::any_io_executor& executor, const AgentControls& controls) = 0;

    // The coordinator says something, of which the agent has done nothing yet.
    virtual void heard(const ControlMessage&) {}

    // Something happened that the coordinator does not say.
    virtual void learnt(const AgentNews&) {}

    // All workers of this node were started; once in every round.
    virtual void workers_run(const RoundReady&) {}

    // The job is over here. Returns one line about trouble, if there was any, which is shown.
    virtual std::optional<std::string> ended(const JobResult&) { return std::nullopt; }
};

}  // namespace ddprun::inline launch
