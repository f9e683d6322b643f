// What no member of a message can hold is refused where the message's bytes arrive: made from the
// descriptions, so that a new member is tried as well.
#include <boost/json.hpp>
#include <csignal>
#include <limits>
#include <set>

#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/control_samples.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

std::string frame_text(const ControlMessage& message) { return encode_control(message).substr(4); }

// Puts into each member of one message, and into each member of what it holds, what it cannot have, one at a
// time.
class FieldWalk {
  public:
    explicit FieldWalk(const ControlMessage& message)
        : whole_(json::parse(frame_text(message), {}, {.allow_invalid_utf8 = true})) {
        std::visit([this](const auto& value) { walk(value, whole_, {}); }, message);
    }

    int fields() const { return fields_; }

  private:
    struct Limits {
        NumberRange range = kCountRange;
        std::size_t size = kMaxControlText;
        bool may_be_none = false;
    };

    template <class T>
    void walk(const T& value, json::value& at, const Limits& limits) {
        if constexpr (Described<T>) {
            visit_members<T>([&](auto member) {
                Limits own{range_of(Of<member.pointer>{}), limit_of(Of<member.pointer>{})};
                if (own.range == kNoOwnRange) own.range = kCountRange;
                if (own.size == kNoOwnLimit) own.size = kMaxControlText;
                INFO(member.name);
                walk(value.*member.pointer, at.as_object().at(member.name), own);
            });
        } else if constexpr (kIsOptional<T>) {
            REQUIRE(value);
            Limits of_value = limits;
            of_value.may_be_none = true;
            walk(*value, at, of_value);
        } else if constexpr (kIsList<T>) {
            walk_list(value, at, limits);
        } else {
            ++fields_;
            refuse(at, {json::array(), json::object()});
            if (!limits.may_be_none) refuse(at, {nullptr});
            try_values<T>(at, limits);
        }
    }

    template <class T>
    void walk_list(const T& list, json::value& at, const Limits& limits) {
        REQUIRE_FALSE(list.empty());
        json::value longest = at;
        while (longest.as_array().size() < limits.size) longest.as_array().push_back(at.as_array().front());
        json::value longer = longest;
        longer.as_array().push_back(at.as_array().front());
        refuse(at, {nullptr, 1, "text", longer});
        take(at, longest);
        const Limits of_items{limits.range, kMaxLastLineText};
        for (std::size_t i = 0; i < list.size(); ++i) walk(list[i], at.as_array().at(i), of_items);
    }

    template <class T>
    void try_values(json::value& at, const Limits& limits) {
        if constexpr (std::same_as<T, std::string>) {
            refuse(at, {1, true, json::string(limits.size + 1, 'x')});
            take(at, json::string(limits.size, 'x'));
        } else if constexpr (std::same_as<T, bool>) {
            refuse(at, {0, 1, "true"});
        } else if constexpr (DescribedEnum<T>) {
            refuse(at, {0, true, "", "no_such_value"});
        } else if constexpr (std::signed_integral<T>) {
            const auto [least, most] = limits.range;
            refuse(at, {"1", true, 1.5, least - 1, most + 1, std::numeric_limits<std::int64_t>::min(),
                        std::numeric_limits<std::int64_t>::max()});
        } else {
            static_assert(std::same_as<T, std::uint64_t>, "a kind of member that this test does not know");
            refuse(at, {"1", true, 1.5, -1, 0x1p64});
        }
    }

    void refuse(json::value& at, const std::vector<json::value>& bad) {
        const json::value good = at;
        for (const json::value& value : bad) {
            at = value;
            CAPTURE(json::serialize(value).substr(0, 100));
            CHECK_FALSE(decode_control(json::serialize(whole_)).has_value());
        }
        at = good;
        CHECK(decode_control(json::serialize(whole_)).has_value());
    }

    void take(json::value& at, const json::value& value) {
        const json::value good = std::exchange(at, value);
        CHECK(decode_control(json::serialize(whole_)).has_value());
        at = good;
    }

    json::value whole_;
    int fields_ = 0;
};

}  // namespace

TEST_CASE("a message of any type with any member out of its range, too long or of another kind is refused") {
    int fields = 0;
    std::set<std::size_t> types;
    for (const ControlMessage& message : sample_messages()) {
        fields += FieldWalk(message).fields();
        types.insert(message.index());
    }
    CHECK(types.size() == std::variant_size_v<ControlMessage>);
    CHECK(fields > 350);  // or the walk no longer reaches them
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
        CHECK_FALSE(decode_control(frame_text(message)).has_value());
    }
}

TEST_CASE("only signals that are for the job travel") {
    for (int signal = 1; signal <= kMaxSignal; ++signal) {
        INFO(signal);
        const bool is_for_one_process = signal == SIGKILL || signal == SIGSTOP || signal == SIGCONT ||
                                        signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
        CHECK(decode_control(frame_text(AgentSignalled{2, signal})).has_value() != is_for_one_process);
        CHECK(decode_control(frame_text(NoticeSignal{2, signal})).has_value() != is_for_one_process);
    }
}

}  // namespace ddprun
