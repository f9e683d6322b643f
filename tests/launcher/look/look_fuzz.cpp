// libFuzzer's target for what another process may have in its memory and its files, and for the kernel's
// texts about it: no reader falls, goes on for ever or tells more than it should.
//
// An input that begins with "maps" is a MemoryImage, as the seeds are. Any other one is what all reads find,
// one behind the other, after a byte that chooses the reader.
//
// Built with clang and -DDDPRUN_FUZZ=ON; run as: look_fuzz -max_total_time=60
// tests/launcher/look/python_images
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "launcher/look/call_reader.hpp"
#include "launcher/look/elf_file.hpp"
#include "launcher/look/kernel_view.hpp"
#include "launcher/look/mappings.hpp"
#include "launcher/look/mounts.hpp"
#include "launcher/look/pthread_ids.hpp"
#include "launcher/look/python_runtime.hpp"
#include "launcher/look/waits/descriptor_texts.hpp"
#include "launcher/look/waits/socket_table.hpp"
#include "tests/launcher/look/memory_image.hpp"
#include "tests/launcher/look/stacks_checks.hpp"

namespace ddprun {
namespace {

class StreamMemory final : public MemoryReader {
  public:
    explicit StreamMemory(std::string_view bytes) : rest_(bytes) {}

    bool read(std::uintptr_t, std::span<std::byte> into) const override {
        if (into.size() > rest_.size()) return false;
        if (!into.empty()) std::memcpy(into.data(), rest_.data(), into.size());
        rest_.remove_prefix(into.size());
        return true;
    }

  private:
    mutable std::string_view rest_;
};

void read_image(std::string_view bytes) {
    const auto image = MemoryImage::parse(bytes);
    const auto runtime = find_python(image, image.mappings, "");
    if (runtime) check_bounds(read_python_stacks(image, *runtime, image.threads));
}

void read_texts(std::string_view text) {
    ThreadView thread;
    parse_thread_stat(text, thread);
    parse_system_call(text, thread);
    check(tracer_in_status(text) >= 0 || text.find('-') != std::string_view::npos,
          "no number below 0 by itself");
    const auto mapping = parse_mapping(text);
    check(!mapping || mapping->begin < mapping->end, "a mapping of some bytes");
    mount_of(text, "/data/shards/0113.tar");
    mount_of_number(text, 30);
    const DescriptorInfo info = parse_descriptor_info(text);
    check(info.watched.size() <= kMaxWatched, "no more watched than is believed");
    holder_of_file_lock(text, 4711, info.inode);
}

void read_sockets(std::string_view datagram) {
    std::vector<SocketEntry> sockets;
    parse_sockets(std::as_bytes(std::span(datagram)), sockets);
    const SocketTable table(sockets);
    for (const SocketEntry& socket : sockets) {
        check(table.find(socket.inode) != nullptr, "each socket is found by its inode");
        table.other_end_of(socket);
        SocketTable::end_of(socket);
    }
}

void read_stream(std::string_view bytes) {
    const auto choice = static_cast<unsigned char>(bytes[0]);
    const StreamMemory memory(bytes.substr(1));
    constexpr std::uint32_t kMinors = 8;
    const PythonRuntime runtime{0x1000, 0x030801f0 + (choice % kMinors << 16), false, ""};
    switch (choice / kMinors) {
        case 0: check_bounds(read_python_stacks(memory, runtime, {})); break;
        case 1: mapped_symbol(memory, 0x1000, "_PyRuntime"); break;
        case 2: file_symbol(memory, 0, memory, "_PyRuntime", ".PyRuntime"); break;
        case 3: find_python(memory, {{0x1000, 0x2000, 0, "r--p", "/usr/bin/python3"}}, ""); break;
        case 4:
            read_published_call(memory, {{0x1000, 0x2000, 0, "rw-s", "/memfd:ddprun-calls (deleted)"}});
            break;
        default: pthread_ids(memory, std::vector<std::uintptr_t>{1, 2, 3}, std::vector<pid_t>{1, 2, 3});
    }
}

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    if (bytes.empty()) return 0;
    if (bytes.starts_with("maps")) {
        ddprun::read_image(bytes);
    } else {
        ddprun::read_texts(bytes);
        ddprun::read_sockets(bytes);
        ddprun::read_stream(bytes);
    }
    return 0;
}
