#include "launcher/look/native/native_frames.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include "launcher/look/native/module_files.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kSearchedStack = 32UL * 1024;
constexpr std::size_t kMaxGuesses = 24;

struct Call {
    Dwarf_Addr address = 0;  // inside of the instruction that calls
    Dwfl_Module* module = nullptr;
};

// Unwinder unwinds one thread after the other. libdw calls it back.
class Unwinder {
  public:
    Unwinder(const NativeScope& scope, const ModuleFiles& files, const std::vector<Mapping>& mappings)
        : scope_(scope), files_(files), mappings_(mappings) {
        static const Dwfl_Thread_Callbacks kCallbacks = {next_thread,  get_thread, read_memory,
                                                         begin_thread, nullptr,    nullptr};
        if (files.dwfl() != nullptr)
            is_ready_ = dwfl_attach_state(files.dwfl(), nullptr, kThread, &kCallbacks, this);
    }

    // Returns the calls from the innermost on; sets whether they reach the thread's begin.
    std::vector<Call> unwind(const NativeThread& thread, bool& is_whole) {
        is_whole = false;
        if (!is_ready_ || thread.memory == nullptr) return {};
        thread_ = &thread;
        const RegisterTable& table = register_table();
        registers_ = in_dwarf_order(thread.registers, table);
        auto best = unwind_once(is_whole);
        // Without its frame pointer a stack of functions that have one ends early. A right one leads to the
        // begin.
        if (is_whole || !thread.registers.all.empty()) return best;
        for (const std::uint64_t guess : frame_pointers(thread)) {
            if (has_passed(scope_.deadline)) break;
            registers_[table.frame_pointer] = guess;
            auto calls = unwind_once(is_whole);
            if (is_whole) return calls;
            if (kOwnArchitecture == Architecture::aarch64) calls = follow_records(guess, is_whole);
            if (is_whole) return calls;
        }
        return best;
    }

  private:
    static constexpr pid_t kThread = 1;  // libdw asks for the thread by a number, which nothing else needs

    std::vector<Call> unwind_once(bool& is_whole) {
        calls_.clear();
        const int result = dwfl_getthread_frames(files_.dwfl(), kThread, take_frame, this);
        is_whole = result == 0 && !calls_.empty() && is_begin(calls_.back());
        return calls_;
    }

    // On aarch64 a function may keep its return address in a register, which is not known. Each further one
    // has its frame record on the stack (Procedure Call Standard for the Arm 64-bit Architecture, 6.4.6):
    // where the next record is, and where to return to. So only the caller of the innermost function is
    // missing.
    std::vector<Call> follow_records(std::uint64_t record, bool& is_whole) {
        calls_.clear();
        add_call(thread_->registers.program_counter);
        while (calls_.size() < kMaxFrames && !has_passed(scope_.deadline)) {
            const auto next = thread_->memory->value<std::uint64_t>(record);
            const auto back = thread_->memory->value<std::uint64_t>(record + sizeof(record));
            if (!next || !back || *back == 0) break;
            add_call(*back - 1);
            is_whole = *next == 0 || is_begin(calls_.back());
            if (is_whole || *next <= record) break;
            record = *next;
        }
        return calls_;
    }

    void add_call(Dwarf_Addr address) {
        calls_.push_back({address, dwfl_addrmodule(files_.dwfl(), address)});
    }

    // The tables of the function that a thread begins with say that it returns to nothing.
    static bool is_begin(const Call& call) {
        Dwarf_Addr bias = 0;
        Dwarf_CFI* tables = call.module == nullptr ? nullptr : dwfl_module_eh_cfi(call.module, &bias);
        Dwarf_Frame* frame = nullptr;
        if (tables == nullptr || dwarf_cfi_addrframe(tables, call.address - bias, &frame) != 0) return false;
        std::array<Dwarf_Op, 3> room{};
        Dwarf_Op* found = nullptr;
        std::size_t count = 0;
        const int column = dwarf_frame_info(frame, nullptr, nullptr, nullptr);
        const bool is_told = dwarf_frame_register(frame, column, room.data(), &found, &count) == 0;
        std::free(frame);
        return is_told && count == 0 && found == room.data();
    }

    // Returns what may be the frame pointer of the innermost function that has one: where on the stack a pair
    // of the next frame pointer and an address of code stands.
    std::vector<std::uint64_t> frame_pointers(const NativeThread& thread) const {
        const std::uintptr_t begin =
            thread.registers.stack_pointer / sizeof(std::uint64_t) * sizeof(std::uint64_t);
        const Mapping* stack = mapping_of(mappings_, begin);
        if (stack == nullptr) return {};
        std::vector<std::uint64_t> words(std::min<std::size_t>(kSearchedStack, stack->end - begin) /
                                         sizeof(begin));
        if (!thread.memory->read(begin, std::as_writable_bytes(std::span(words)))) return {};
        std::vector<std::uint64_t> found;
        for (std::size_t i = 0; i + 1 < words.size() && found.size() < kMaxGuesses; ++i) {
            const std::uintptr_t here = begin + i * sizeof(begin);
            const Mapping* code = mapping_of(mappings_, words[i + 1]);
            const bool leads_up = words[i] > here && words[i] < stack->end && words[i] % sizeof(begin) == 0;
            if (leads_up && code != nullptr && code->permissions.find('x') != std::string::npos)
                found.push_back(here);
        }
        return found;
    }

    static pid_t next_thread(Dwfl*, void* self, void** argument) {
        if (*argument != nullptr) return 0;
        *argument = self;
        return kThread;
    }
    static bool get_thread(Dwfl*, pid_t, void* self, void** argument) {
        *argument = self;
        return true;
    }
    static bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* self) {
        const auto* unwinder = static_cast<const Unwinder*>(self);
        if (has_passed(unwinder->scope_.deadline)) return false;
        const auto value = unwinder->thread_->memory->value<std::uint64_t>(address);
        *word = value.value_or(0);
        return value.has_value();
    }
    static bool begin_thread(Dwfl_Thread* thread, void* self) {
        const auto* unwinder = static_cast<const Unwinder*>(self);
        const auto& all = unwinder->registers_;
        dwfl_thread_state_register_pc(thread, unwinder->thread_->registers.program_counter);
        return dwfl_thread_state_registers(thread, 0, static_cast<unsigned>(all.size()), all.data());
    }
    static int take_frame(Dwfl_Frame* frame, void* self) {
        auto* unwinder = static_cast<Unwinder*>(self);
        Dwarf_Addr address = 0;
        bool is_exact = false;
        if (!dwfl_frame_pc(frame, &address, &is_exact)) return DWARF_CB_ABORT;
        if (!is_exact) --address;
        unwinder->add_call(address);
        const bool goes_on = unwinder->calls_.size() < kMaxFrames && !has_passed(unwinder->scope_.deadline);
        return goes_on ? DWARF_CB_OK : DWARF_CB_ABORT;
    }

    const NativeScope& scope_;
    const ModuleFiles& files_;
    const std::vector<Mapping>& mappings_;
    bool is_ready_ = false;
    const NativeThread* thread_ = nullptr;
    std::vector<std::uint64_t> registers_;
    std::vector<Call> calls_;
};

// Names all calls of one module at once.
void name_calls(const ModuleFiles& files, const std::vector<std::vector<Call>>& stacks,
                std::vector<NativeStack>& named) {
    std::map<Dwfl_Module*, std::map<Dwarf_Addr, std::string>> names;
    for (const auto& calls : stacks) {
        for (const Call& call : calls) names[call.module].emplace(call.address, std::string());
    }
    for (auto& [module, at] : names) {
        if (module == nullptr) continue;
        std::vector<Dwarf_Addr> addresses;
        for (const auto& [address, name] : at) addresses.push_back(address);
        auto found = files.names_at(module, addresses);
        for (std::size_t i = 0; i < addresses.size(); ++i) at[addresses[i]] = std::move(found[i]);
    }
    for (std::size_t number = 0; number < stacks.size(); ++number) {
        for (const Call& call : stacks[number]) {
            const char* path = call.module == nullptr
                                   ? nullptr
                                   : dwfl_module_info(call.module, nullptr, nullptr, nullptr, nullptr,
                                                      nullptr, nullptr, nullptr);
            named[number].frames.push_back(
                {names[call.module][call.address], path == nullptr ? "" : path, 0, true});
        }
    }
}

}  // namespace

std::vector<NativeStack> native_stacks(const NativeScope& scope, const std::vector<Mapping>& mappings,
                                       std::span<const NativeThread> threads) {
    std::vector<NativeStack> stacks(threads.size());
    const ModuleFiles files(scope, mappings);
    std::vector<std::vector<Call>> calls;
    Unwinder unwinder(scope, files, mappings);
    for (std::size_t number = 0; number < threads.size(); ++number)
        calls.push_back(unwinder.unwind(threads[number], stacks[number].is_whole));
    name_calls(files, calls, stacks);
    return stacks;
}

}  // namespace launch
}  // namespace ddprun
