#include "launcher/guardian/guardian_wire.hpp"

#include <array>

#include "rendezvous/codec/binary_codec.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {

// A given stream is its kind only.
template <>
struct BinaryForm<StreamTarget> {
    static constexpr int kGivenStream = 100;  // beside the values of Stdio

    static int out(const StreamTarget& target) {
        const auto* choice = std::get_if<Stdio>(&target);
        return choice != nullptr ? static_cast<int>(*choice) : kGivenStream;
    }
    static bool in(int kind, StreamTarget& target) {
        if (kind == kGivenStream) {
            target = GivenDescriptor{};
        } else {
            target = static_cast<Stdio>(kind);
        }
        return kind == kGivenStream || is_value(static_cast<Stdio>(kind));
    }
};

struct ExitForm {
    bool exited = true;
    int value = 0;
    bool core_dumped = false;
};
BOOST_DESCRIBE_STRUCT(ExitForm, (), (exited, value, core_dumped))

template <>
struct BinaryForm<ExitStatus> {
    static ExitForm out(const ExitStatus& status) {
        if (const auto* exited = std::get_if<Exited>(&status)) return {true, exited->code, false};
        const auto& [signal, core_dumped] = std::get<Signaled>(status);
        return {false, signal, core_dumped};
    }
    static bool in(const ExitForm& form, ExitStatus& status) {
        status = Signaled{form.value, form.core_dumped};
        if (form.exited) status = Exited{form.value};
        return true;
    }
};

}  // namespace ddprun

namespace ddprun::inline launch {
namespace {

template <class Message>
boost::system::result<Message> decode(std::string_view bytes) {
    Message message;
    if (!from_bytes<WideNumbers>(bytes, message)) return make_error_code(Errc::protocol_violation);
    return message;
}

template <class Spec>
auto streams(Spec& spec) {
    return std::array{&spec.standard_input, &spec.standard_output, &spec.standard_error};
}

}  // namespace

std::string encode_order(const GuardianOrder& order) { return to_bytes<WideNumbers>(order); }

std::string encode_event(const GuardianEvent& event) { return to_bytes<WideNumbers>(event); }

boost::system::result<GuardianOrder> decode_order(std::string_view bytes) {
    return decode<GuardianOrder>(bytes);
}

boost::system::result<GuardianEvent> decode_event(std::string_view bytes) {
    return decode<GuardianEvent>(bytes);
}

std::vector<int> given_descriptors(const WorkerSpec& spec) {
    std::vector<int> numbers;
    for (const StreamTarget* target : streams(spec)) {
        if (const auto* given = std::get_if<GivenDescriptor>(target)) numbers.push_back(given->fd);
    }
    return numbers;
}

bool give_descriptors(WorkerSpec& spec, std::span<const int> numbers) {
    std::size_t next = 0;
    for (StreamTarget* target : streams(spec)) {
        auto* given = std::get_if<GivenDescriptor>(target);
        if (given == nullptr) continue;
        if (next == numbers.size()) return false;
        given->fd = numbers[next++];
    }
    return next == numbers.size();
}

}  // namespace ddprun::inline launch
