// Numbers that no job can have are refused where a message's bytes arrive: made from the descriptions, so that a new
// member is tried as well.
#include <boost/json.hpp>
#include <csignal>
#include <limits>

#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/job/json_codec.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/control_samples.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

std::string frame_text(const ControlMessage& message) { return encode_control(message).substr(4); }

// Puts numbers in the place of each number of one message, one at a time.
class NumberWalk {
  public:
    explicit NumberWalk(const ControlMessage& message)
        : whole_(json::parse(frame_text(message), {}, {.allow_invalid_utf8 = true})) {
        std::visit([this](const auto& value) { walk(value, whole_, kCountRange); }, message);
    }

    int numbers() const { return numbers_; }

  private:
    template <class T>
    void walk(const T& value, json::value& at, const NumberRange& range) {
        if constexpr (Described<T>) {
            visit_members<T>([&](auto member) {
                const NumberRange own = range_of(Of<member.pointer>{});
                INFO(member.name);
                walk(value.*member.pointer, at.as_object().at(member.name),
                     own == kNoOwnRange ? kCountRange : own);
            });
        } else if constexpr (kIsOptional<T>) {
            REQUIRE(value);
            walk(*value, at, range);
        } else if constexpr (kIsList<T>) {
            REQUIRE_FALSE(value.empty());
            for (std::size_t i = 0; i < value.size(); ++i) walk(value[i], at.as_array().at(i), range);
        } else if constexpr (std::signed_integral<T>) {
            ++numbers_;
            try_numbers(at, range);
        }
    }

    void try_numbers(json::value& at, const NumberRange& range) {
        const json::value good = at;
        for (const std::int64_t bad :
             {range.least - 1, range.most + 1, std::numeric_limits<std::int64_t>::min(),
              std::numeric_limits<std::int64_t>::max()}) {
            at = bad;
            INFO(whole_);
            CHECK(decode_control(json::serialize(whole_)).has_error());
        }
        at = good;
        CHECK(decode_control(json::serialize(whole_)).has_value());
    }

    json::value whole_;
    int numbers_ = 0;
};

}  // namespace

TEST_CASE("a message of any type with any number out of its range is refused") {
    int numbers = 0;
    for (const ControlMessage& message : sample_messages()) numbers += NumberWalk(message).numbers();
    CHECK(numbers > 200);  // or the walk no longer reaches them
}

TEST_CASE("numbers that do not go together are refused") {
    Failure failure = sample_failure();
    const auto with = [&failure](auto change) {
        Failure changed = failure;
        change(changed);
        return changed;
    };
    const auto success = with([](Failure& one) { one.exit_code = 0; });
    const auto stopped = with([](Failure& one) {
        one.kind = Failure::Kind::signalled;
        one.signal = SIGSTOP;
    });
    MemberList elsewhere = sample_members(), beyond = sample_members();
    elsewhere.host_rank = elsewhere.size;
    beyond.members.back().group_rank = beyond.size;
    Hello outside{.version = DDPRUN_VERSION}, mourner{.version = DDPRUN_VERSION};
    outside.following = mourner.following = Following{.last = sample_members()};
    outside.following->group_rank = sample_members().size;
    mourner.following->dead = {sample_members().size};
    RankEnd failed = sample_end(), succeeded = sample_end();
    failed.manner = RankEnd::Manner::failed;
    failed.exit_code = 0;
    succeeded.manner = RankEnd::Manner::succeeded;
    for (const ControlMessage& message : std::vector<ControlMessage>{
             WorkerFailed{2, success}, WorkersGone{.failure = success}, Stop{2, success}, Stop{2, stopped},
             Finish{.exit_code = 0, .cause = failure}, Finish{.exit_code = 9, .cause = success},
             StillRunning{2, 1, {{5, 4}}, 1}, elsewhere, beyond, outside, mourner, RankEnds{2, {failed}},
             RankEnds{2, {succeeded}}}) {
        INFO(frame_text(message));
        CHECK(decode_control(frame_text(message)).has_error());
    }
}

TEST_CASE("only signals that are for the job travel") {
    for (int signal = 1; signal <= kMaxSignal; ++signal) {
        INFO(signal);
        const bool is_for_one_process = signal == SIGKILL || signal == SIGSTOP || signal == SIGCONT ||
                                        signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
        CHECK(decode_control(frame_text(AgentSignalled{2, signal})).has_error() == is_for_one_process);
        CHECK(decode_control(frame_text(NoticeSignal{2, signal})).has_error() == is_for_one_process);
    }
}

}  // namespace ddprun
