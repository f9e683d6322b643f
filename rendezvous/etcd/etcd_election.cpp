#include "rendezvous/etcd/etcd_election.hpp"

#include <fmt/core.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/etcd/election_table.hpp"
#include "rendezvous/etcd/election_text.hpp"
#include "rendezvous/etcd/etcd_client.hpp"
#include "rendezvous/etcd/etcd_register.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;

namespace {

class Election final : public EtcdElection, public std::enable_shared_from_this<Election> {
  public:
    using Event = ElectionEvent;
    using Action = ElectionAction;

    Election(const asio::any_io_executor& executor, ElectionOptions options, ElectionEvents events)
        : executor_(executor),
          options_(std::move(options)),
          events_(std::move(events)),
          register_(options_.etcd, options_.record.run_id, options_.lease_ttl),
          interruption_(executor, TimePoint::max()),
          pause_(executor) {}

    void campaign(TimePoint deadline) override {
        deadline_ = deadline;
        told_.reset();
        react(Event::campaign_asked);
    }

    void claim(const MemberList& last, const std::vector<int>& dead, TimePoint deadline) override {
        last_ = last;
        dead_ = dead;
        deadline_ = deadline;
        told_.reset();
        react(Event::claim_asked);
    }

    void record(const std::optional<RecordWish>& wish) override {
        wish_ = wish;
        is_settled_ = !wish;
        if (wish) react(Event::record_asked);
    }

    void release() override { react(Event::release_asked); }

    void publish(const Endpoint& host) override {
        options_.record.endpoint = to_string(host);
        is_published_ = false;
        react(Event::publish_asked);
    }

    void settle() override { react(Event::host_found); }

    void withdraw(std::function<void()> done) override {
        react(Event::withdraw_asked);
        on_withdrawn_ = std::move(done);
        if (!is_running_) withdrawn();
    }

    // The owner is gone: nothing is reported any more.
    void abandon() {
        events_ = {};
        on_withdrawn_ = nullptr;
        next_ = Action::rest;
        is_abandoned_ = true;
        interruption_.cancel();
    }

  private:
    void react(Event event) {
        const ElectionStep step = next_step(state_, event);
        state_ = step.next;
        if (step.action == Action::none) return;
        next_ = step.action;
        interruption_.cancel();
        if (std::exchange(is_running_, true)) return;
        asio::co_spawn(
            executor_, [self = shared_from_this()] { return self->run(); },
            [](const std::exception_ptr& error) {
                if (error) std::rethrow_exception(error);
            });
    }

    asio::awaitable<void> run() {
        using namespace asio::experimental::awaitable_operators;
        auto self = shared_from_this();
        while (next_ != Action::rest && next_ != Action::none) {
            const Action action = std::exchange(next_, Action::none);
            const auto first = co_await (carry_out(action) || interrupted());
            // Otherwise something else is to be done by now.
            if (first.index() == 0 && next_ == Action::none && !is_abandoned_) {
                const ElectionStep step = next_step(state_, std::get<0>(first));
                state_ = step.next;
                next_ = step.action;
            }
        }
        is_running_ = false;
        if (state_ == ElectionState::withdrawn) withdrawn();
    }

    asio::awaitable<void> interrupted() {
        boost::system::error_code cancelled;
        co_await interruption_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }

    void withdrawn() {
        if (on_withdrawn_) asio::post(executor_, std::exchange(on_withdrawn_, nullptr));
    }

    template <class Callback, class... Argument>
    void tell(Callback ElectionEvents::*event, Argument... argument) {
        asio::post(executor_, [self = shared_from_this(), event, argument...] {
            if (self->events_.*event) (self->events_.*event)(argument...);
        });
    }

    // Carries an action out and returns what it leads to. It may be interrupted at every wait, and is then
    // begun anew or not at all.
    asio::awaitable<Event> carry_out(Action action) {
        switch (action) {
            case Action::none:
            case Action::rest: break;
            case Action::announce:
                tell(&ElectionEvents::on_elected, Endpoint{register_.own_address(), options_.port});
                co_return Event::key_kept;
            case Action::lead: tell(&ElectionEvents::on_claimed); co_return Event::key_kept;
            case Action::race:
            case Action::restore: co_return co_await race();
            case Action::claim: co_return co_await claim_key();
            case Action::follow: co_return co_await follow();
            case Action::keep: co_return co_await keep();
            case Action::give_up: tell(&ElectionEvents::on_failed, failure_); break;
            case Action::drop_lease: co_await drop(); break;
        }
        co_return Event::key_gone;  // no news where these lead to
    }

    // An etcd that has something else to say each time does not set the pace.
    asio::awaitable<std::optional<EtcdRegister::View>> look() {
        looks_ = TimePoint::clock::now() - last_look_ < kLongestPause ? looks_ + 1 : 0;
        if (looks_ > kFreeLooks)
            co_await pause_for(std::min(kFirstPause * (looks_ - kFreeLooks), kLongestPause));
        last_look_ = TimePoint::clock::now();
        co_return co_await register_.look(latest());
    }

    asio::awaitable<Event> race() {
        if (is_late()) co_return too_late();
        const auto view = co_await look();
        if (!view) co_return co_await in_vain();
        if (view->host.value) {
            // The answer to the request that wrote it may have been lost.
            if (register_.is_own_host(*view)) co_return Event::key_won;
            co_await register_.drop_host(latest());
            // A host that has lost its key has found one long ago.
            if (state_ == ElectionState::restoring) deadline_ = TimePoint::max();
            co_return Event::key_taken;
        }
        // The members of that round come first.
        if (view->round.value && !register_.is_own_round(*view)) co_return co_await stand_back(*view);
        const auto written = co_await register_.take(*view, to_json(options_.record), latest());
        if (!written) co_return co_await in_vain();
        if (*written) note_won();
        co_return *written ? Event::key_won : Event::key_taken;
    }

    void note_won() {
        succeed();
        told_.reset();
        is_published_ = !options_.record.endpoint.empty();
    }

    asio::awaitable<Event> stand_back(const EtcdRegister::View& view) {
        cause_ = "the host was lost, and the members of its last round may choose another one";
        refuse_wish("the job's last round in etcd is another node's");
        co_await await_change(view, false);
        co_return Event::trouble;
    }

    asio::awaitable<void> await_change(const EtcdRegister::View& view, bool of_host) {
        const bool is_good = co_await register_.await_change(view, of_host, limit());
        // The next look tells whether etcd itself is in trouble.
        if (!is_good) co_await pause_for(kLongestPause);
    }

    asio::awaitable<Event> claim_key() {
        if (is_late()) co_return too_late();
        const auto view = co_await look();
        if (!view) co_return co_await in_vain();
        if (register_.is_own_host(*view)) co_return claimed(*view);
        const auto holder = view->host.value ? read_host_record(*view->host.value) : std::nullopt;
        const bool is_dead = holder && is_one_of(*holder, last_, dead_);
        if (view->host.value && !is_dead) co_return co_await await_host(*view);
        if (!view->record) {
            failure_ = unknown_round_text(options_.etcd);
            co_return Event::unfit;
        }
        if (!may_lead(*view->record, last_)) {
            cause_ = "the job has gone on without this node";
            co_await await_change(*view, false);
            co_return Event::key_taken;
        }
        options_.record.endpoint.clear();
        const auto written = co_await register_.take(*view, to_json(options_.record), latest());
        if (!written) co_return co_await in_vain();
        co_return *written ? claimed(*view) : Event::key_taken;
    }

    // The recorded round is left there until this agent's coordinator says more.
    Event claimed(const EtcdRegister::View& view) {
        note_won();
        if (view.record && !wish_) wish_ = RecordWish{*view.record, std::nullopt};
        return Event::key_won;
    }

    asio::awaitable<Event> follow() {
        if (is_late()) co_return too_late();
        const auto view = co_await look();
        if (!view) co_return co_await in_vain();
        if (!view->host.value) co_return Event::key_gone;
        co_return co_await await_host(*view);
    }

    // Says where it is, and waits until that changes.
    asio::awaitable<Event> await_host(const EtcdRegister::View& view) {
        const auto record = read_host_record(*view.host.value);
        const auto host = record ? endpoint_of(*record) : std::nullopt;
        if (record) {
            cause_ = waiting_text(*record);
            refuse_wish(deposed_text(*record));
            succeed();
        } else {
            cause_ = fmt::format("the key {} in etcd is none of ddprun's", register_.host_key());
            tell(&ElectionEvents::on_trouble, cause_);
        }
        if (host && std::exchange(told_, host) != host) tell(&ElectionEvents::on_host, *host);
        co_await await_change(view, true);
        co_return Event::key_taken;
    }

    asio::awaitable<Event> keep() {
        if (!is_published_ && !options_.record.endpoint.empty()) {
            const auto written = co_await register_.write_host(to_json(options_.record), latest());
            if (!written) co_return co_await in_vain();
            is_published_ = true;
            if (!*written) co_return Event::lease_lost;
        }
        if (wish_ && !is_settled_) {
            const auto event = co_await record_wish();
            if (event != Event::key_kept) co_return event;
        }
        succeed();
        // Often enough that two attempts may fail.
        co_await pause_for(register_.keep_period());
        const auto kept = co_await register_.keep(latest());
        if (!kept) co_return co_await in_vain();
        co_return *kept ? Event::key_kept : Event::lease_lost;
    }

    asio::awaitable<Event> record_wish() {
        const RecordWish wish = *wish_;
        const bool anew = !register_.has_recorded();
        if (anew && (!wish.renew_until || has_passed(*wish.renew_until))) {
            refuse_wish("etcd has lost the job's last round, so another node may lead the job by now");
            co_return Event::key_kept;
        }
        const TimePoint until = anew ? std::min(latest(), *wish.renew_until) : latest();
        const auto written = co_await register_.record(wish.record, anew, until);
        if (!written) co_return co_await in_vain();
        if (wish_ != wish) co_return Event::trouble;
        if (*written) {
            is_settled_ = true;
            tell(&ElectionEvents::on_record, RecordNews{RecordNews::Kind::recorded, wish.record, {}});
            co_return Event::key_kept;
        }
        if (anew) refuse_wish("the job's last round in etcd is another node's");
        co_return Event::lease_lost;
    }

    void refuse_wish(const std::string& why) {
        if (!wish_ || std::exchange(is_settled_, true)) return;
        tell(&ElectionEvents::on_record, RecordNews{RecordNews::Kind::refused, wish_->record, why});
    }

    asio::awaitable<void> drop() {
        const TimePoint deadline = TimePoint::clock::now() + EtcdRegister::kDropTimeout;
        co_await register_.drop_host(deadline);
        if (state_ == ElectionState::withdrawn && !wish_) co_await register_.drop_round(deadline);
    }

    void succeed() {
        pause_length_ = kFirstPause;
        said_.clear();
    }

    asio::awaitable<Event> in_vain() {
        cause_ = register_.cause();
        if (register_.is_refused() && is_seeking()) {
            failure_ = refused_text(options_.etcd, cause_);
            co_return Event::refused;
        }
        if (is_seeking()) {
            tell(&ElectionEvents::on_trouble, "etcd is of no help: " + cause_);
        } else if (std::exchange(said_, cause_) != cause_) {
            tell(&ElectionEvents::on_trouble, cause_);  // a host says once why it cannot keep its key
        }
        if (wish_ && !is_settled_)
            tell(&ElectionEvents::on_record, RecordNews{RecordNews::Kind::trouble, wish_->record, cause_});
        co_await pause();
        co_return Event::trouble;
    }

    // Nothing tells when etcd is there again.
    asio::awaitable<void> pause() {
        co_await pause_for(std::exchange(pause_length_, std::min(2 * pause_length_, kLongestPause)));
    }

    asio::awaitable<void> pause_for(std::chrono::milliseconds length) {
        pause_.expires_at(std::min(TimePoint::clock::now() + length, limit()));
        co_await pause_.async_wait(asio::use_awaitable);
    }

    // Asked for a host; a former host is not.
    bool is_seeking() const {
        const bool is_asking = state_ == ElectionState::racing || state_ == ElectionState::following ||
                               state_ == ElectionState::claiming;
        return is_asking && deadline_ != TimePoint::max();
    }

    // An agent that was told where the host is tries to reach it, for as long as there is time.
    TimePoint limit() const {
        const bool is_told = state_ == ElectionState::following && told_;
        return is_seeking() && !is_told ? deadline_ : TimePoint::max();
    }
    bool is_late() const { return has_passed(limit()); }
    TimePoint latest() const {
        return std::min(limit(),
                        TimePoint::clock::now() +
                            EtcdClient::kRequestTimeout * static_cast<int>(options_.etcd.endpoints.size()));
    }

    Event too_late() {
        if (state_ == ElectionState::claiming) {
            failure_ = unclaimed_text(options_.etcd, cause_);
            return Event::too_late;
        }
        failure_ = unelected_text(options_.etcd, options_.join_timeout, cause_);
        return Event::too_late;
    }

    asio::any_io_executor executor_;
    ElectionOptions options_;
    ElectionEvents events_;
    EtcdRegister register_;
    ElectionState state_ = ElectionState::resting;
    Action next_ = Action::none;  // to be carried out when what is being done has ended
    bool is_running_ = false;
    bool is_abandoned_ = false;
    asio::steady_timer interruption_;
    asio::steady_timer pause_;
    std::chrono::milliseconds pause_length_ = kFirstPause;  // of the next one
    int looks_ = 0;                                         // each soon after the one before
    TimePoint last_look_;
    TimePoint deadline_ = TimePoint::max();
    MemberList last_;        // whose host was lost, …
    std::vector<int> dead_;  // … and who of it is dead
    std::optional<RecordWish> wish_;
    bool is_settled_ = true;    // that wish: recorded, or never
    bool is_published_ = true;  // what the record says of the endpoint
    std::optional<Endpoint> told_;
    std::string cause_;  // why there was no good answer
    std::string said_;   // of a host's trouble
    std::string failure_;
    std::function<void()> on_withdrawn_;
};

}  // namespace

std::shared_ptr<EtcdElection> EtcdElection::make(const asio::any_io_executor& executor,
                                                 ElectionOptions options, ElectionEvents events) {
    auto election = std::make_shared<Election>(executor, std::move(options), std::move(events));
    return {election.get(), [election](EtcdElection*) { election->abandon(); }};
}

}  // namespace job
}  // namespace ddprun
