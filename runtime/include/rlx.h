// SPDX-License-Identifier: Apache-2.0
// rlx: replays compiled plans on GPUs. The one public header: C11 and C++, opaque handles, no
// exceptions across it.
//
// Errors. Every call that can fail returns an rlx_status; rlx_last_error() then holds a full
// sentence for this thread. A failed call leaves its out-parameters untouched (handles are set to
// NULL) and writes nothing partly.
//
// Sizes. Every struct starts with struct_size, which the caller sets to sizeof(the struct)
// (RLX_INIT does). An older program keeps working with a newer library; fields that the library
// does not know must be zero.
//
// Strings. UTF-8, zero-terminated. Strings that the library returns belong to it and live as long
// as the comment says.
//
// Threads. Plans and devices may be used by any number of threads at once; a session by one thread
// at a time.
//
// Handles. Closing NULL does nothing. A session keeps its plan and device alive: close in any
// order.
//
// Trust. A plan is data and is verified completely when it is opened: no plan makes a step touch a
// byte outside the values it names, provided that its kernels keep to what their records declare
// (pointers, bytes needed, numbers that bound them). Code holds the digest of its record, so that
// genuine code under another record is refused. Code itself is trusted by the policy of who opens
// the plan (rlx_trust): unless another is chosen, as a program would be.
#ifndef RLX_H
#define RLX_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RLX_API __attribute__((visibility("default")))
#else
#define RLX_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_MAX_RANK 8
#define RLX_NO_TIMEOUT UINT64_MAX

typedef enum rlx_status {
  RLX_OK = 0,
  // The call is wrong: null, a size, a dtype, a shape, a name that does not exist.
  RLX_INVALID_ARGUMENT = 1,
  // The call is right, its moment is not: an input never set, a run still under way.
  RLX_INVALID_STATE = 2,
  // A file cannot be opened or read.
  RLX_IO_ERROR = 3,
  // The bytes are no plan, an altered one, or one that the verifier refuses.
  RLX_INVALID_PLAN = 4,
  // A plan of another major version.
  RLX_UNSUPPORTED_VERSION = 5,
  // The device lacks what the plan needs, or the plan was compiled for another target.
  RLX_UNSUITABLE_DEVICE = 6,
  // No such device, or its driver library is missing.
  RLX_NO_DEVICE = 7,
  RLX_OUT_OF_HOST_MEMORY = 8,
  // Includes a memory budget that the plan exceeds.
  RLX_OUT_OF_DEVICE_MEMORY = 9,
  // Sticky for the device and all its sessions; close them and open the device again.
  RLX_DEVICE_LOST = 10,
  // The run is still under way; wait again.
  RLX_TIMEOUT = 11,
  // Any other refusal by the driver, with its own name for it.
  RLX_DRIVER_ERROR = 12,
  // Our mistake.
  RLX_INTERNAL_ERROR = 13,
  // The run has ended, and indices in its data lay outside the tensors that they index; only with
  // the option check_indices. Its outputs can be read: such indices were clamped, read as zero or
  // dropped, as each operator says.
  RLX_INDEX_OUT_OF_RANGE = 14,
  // A sound plan that the caller's policy (rlx_plan_options.trust) does not let run: a signature
  // that is missing, wrong or of another key, code that is in no list.
  RLX_UNTRUSTED_PLAN = 15,
  // The run has ended, and something that the model asserts did not hold: a loop reached its bound,
  // or a branch was taken that cannot be at these sizes; only with the option check_indices. The
  // error says which. Outputs can be read: the loop's values are those at its bound, what such a
  // branch gives is NaN or 0, and it leaves the states as they were.
  RLX_ASSERTION_FAILED = 16
} rlx_status;

// Element types, numbered as in plan files.
typedef enum rlx_dtype {
  RLX_F32 = 0,
  RLX_F16 = 1,
  RLX_BF16 = 2,
  RLX_F64 = 3,
  RLX_I8 = 4,
  RLX_U8 = 5,
  RLX_I16 = 6,
  RLX_I32 = 7,
  RLX_U32 = 8,
  RLX_I64 = 9,
  RLX_BOOL = 10,
  RLX_C64 = 11,
  RLX_F8E4M3 = 12,
  RLX_F8E5M2 = 13
  // 14 and up: block formats of quantised weights; rlx_dtype_name names them.
} rlx_dtype;

typedef enum rlx_step_kind {
  RLX_STEP_DISPATCH = 0,
  RLX_STEP_COPY = 1,
  RLX_STEP_FILL = 2,
  RLX_STEP_LIBRARY_GEMM = 3,
  RLX_STEP_SKIP = 4  // at present sizes there is nothing to do
} rlx_step_kind;

typedef enum rlx_target { RLX_TARGET_VULKAN = 0, RLX_TARGET_CUDA = 1 } rlx_target;

typedef enum rlx_segment {
  RLX_WEIGHTS = 0,
  RLX_STATE = 1,
  RLX_ARENA = 2,
  RLX_IO = 3,
  RLX_INDEX_ERRORS = 4  // counts of indices that lie outside, one u32 per step that reads indices
} rlx_segment;

// Whose kernel code may run. Against hostile plans RLX_TRUST_KNOWN and RLX_TRUST_SIGNED hold;
// under RLX_TRUST_ANY open plans whose origin you trust.
typedef enum rlx_trust {
  RLX_TRUST_ANY = 0,
  // All code, with its records, is in a list of digests (rlx_plan_options.known_code).
  RLX_TRUST_KNOWN = 1,
  // The plan is signed with a key that the caller has pinned (rlx_plan_options.public_keys).
  RLX_TRUST_SIGNED = 2
} rlx_trust;

typedef struct rlx_plan rlx_plan;
typedef struct rlx_device rlx_device;
typedef struct rlx_device_list rlx_device_list;
typedef struct rlx_session rlx_session;

// A zeroed struct with its struct_size set:  rlx_plan_options options = RLX_INIT(rlx_plan_options);
#ifdef __cplusplus
#define RLX_INIT(type) (rlx_init_struct<type>())
#else
#define RLX_INIT(type) ((type){.struct_size = sizeof(type)})
#endif

// ---- Library ----

// Version of the library, "0.1.0". Static.
RLX_API const char* rlx_version(void);
// Version of the plan format that this library reads: major and the newest minor it knows.
RLX_API void rlx_plan_format(uint32_t* major, uint32_t* minor);
// Sentence of this thread's last failed call, "" if the last call succeeded. Valid until this
// thread's next rlx call.
RLX_API const char* rlx_last_error(void);
// "invalid argument" for RLX_INVALID_ARGUMENT; "unknown status" for a number that is no rlx_status.
// Static.
RLX_API const char* rlx_status_name(int status);
// "f32" for RLX_F32; NULL for no dtype. Static.
RLX_API const char* rlx_dtype_name(uint32_t dtype);
// Bytes of `count` elements; 0 for no dtype, for a count that is no whole number of blocks, or
// where it exceeds 64 bits.
RLX_API uint64_t rlx_dtype_bytes(uint32_t dtype, uint64_t count);

// ---- Plans ----

typedef struct rlx_plan_options {
  size_t struct_size;
  // 1: also check the checksum of the weights (reads them all). Everything else is always checked.
  uint32_t check_weights;
  // rlx_plan_open_memory: 1 copies the bytes, 0 uses the caller's until the plan is gone.
  uint32_t copy_memory;
  // Folder of the files that hold weights of a plan compiled with --external-weights; NULL: the
  // plan's own. They are opened when the plan is loaded onto a device: RLX_IO_ERROR where one is
  // missing, RLX_INVALID_PLAN where it is not the file that the plan was compiled from (its size
  // and its first MiB; with check_weights all of it, when the plan is opened).
  const char* weights_folder;
  uint32_t trust;  // rlx_trust
  uint32_t reserved;
  // RLX_TRUST_SIGNED: Ed25519 public keys as text in PEM form, one or more blocks; the plan must be
  // signed with one of them (`rlxc keygen`, `rlxc sign`). All of the plan, and of the files that
  // hold weights of it, is read when it is opened and compared with the SHA-256 digests that were
  // signed. Checked by OpenSSL's libcrypto.so.3, which is opened then. NULL under other policies.
  const char* public_keys;
  // RLX_TRUST_KNOWN: lines that begin with a SHA-256 digest of code and record, as `rlxc inspect
  // --known` prints them; lines that begin with # say nothing. NULL under other policies.
  const char* known_code;
} rlx_plan_options;

// Opens and verifies a plan file. `options` may be NULL. The file must not be written to while the
// plan is open; a file that is shortened meanwhile gives an error at the next load, never a crash.
RLX_API rlx_status rlx_plan_open_file(const char* path, const rlx_plan_options* options,
                                      rlx_plan** plan);
// The same from memory; any alignment. Without copy_memory the bytes must stay until the plan and
// all sessions on it are closed, and unchanged.
RLX_API rlx_status rlx_plan_open_memory(const void* data, size_t size_bytes,
                                        const rlx_plan_options* options, rlx_plan** plan);
// Sessions on the plan go on working.
RLX_API void rlx_plan_close(rlx_plan* plan);

typedef struct rlx_plan_info {
  size_t struct_size;
  const char* name;       // "" in a preflight. Strings live as long as the plan
  const char* producer;   // compiler and version; "" in a preflight
  const char* precision;  // "" in a preflight
  uint32_t format_major;
  uint32_t format_minor;
  uint32_t entry_count;  // 0 in a preflight
  uint32_t reserved;
  uint64_t file_bytes;
  // Memory that one session needs, in bytes; weights are shared by the sessions of one plan on one
  // device.
  uint64_t weights_bytes;
  uint64_t state_bytes;
  uint64_t arena_bytes;
  uint64_t io_bytes;
  uint64_t host_bytes;
  // Targets. Vulkan: 0 or the least API version (VK_MAKE_API_VERSION). CUDA: 0 or the number of
  // architectures (and PTX).
  uint32_t vulkan_api_version;
  uint32_t cuda_architecture_count;
  uint64_t vulkan_features;  // mask of features.def
  // Of a session's memory too: the counts of indices that lie outside.
  uint64_t index_error_bytes;
  uint32_t target_count;  // of rlx_plan_get_target
  uint32_t reserved_2;
} rlx_plan_info;

// Memory report and targets of an open plan; nothing is loaded.
RLX_API rlx_status rlx_plan_get_info(const rlx_plan* plan, rlx_plan_info* info);
// Judges a plan by its first 4,096 bytes, of a remote file for instance: fills `info` and, where
// `device` is not NULL, says with RLX_UNSUITABLE_DEVICE or RLX_OUT_OF_DEVICE_MEMORY what the device
// lacks (info is filled then too).
RLX_API rlx_status rlx_plan_preflight(const void* first_page, size_t size_bytes,
                                      const rlx_device* device, rlx_plan_info* info);

// One of a plan's programs. A plan has one for each target, or several for a target, which differ
// in what they need of a device: a session takes the best that its device meets.
typedef struct rlx_target_info {
  size_t struct_size;
  const char* name;         // as in rlxc --target: "vulkan-nvidia". Lives as long as the plan
  uint32_t target;          // rlx_target
  uint32_t for_processors;  // 1: made for drivers that run kernels on the host's processors
  uint64_t features;        // Vulkan: mask of features.def that it needs
} rlx_target_info;

RLX_API rlx_status rlx_plan_get_target(const rlx_plan* plan, uint32_t target,
                                       rlx_target_info* info);

typedef struct rlx_entry_info {
  size_t struct_size;
  const char* name;  // lives as long as the plan
  uint32_t input_count;
  uint32_t output_count;
} rlx_entry_info;

RLX_API rlx_status rlx_plan_get_entry(const rlx_plan* plan, uint32_t entry, rlx_entry_info* info);
// Index of the entry of that name; the error lists the names that exist.
RLX_API rlx_status rlx_plan_find_entry(const rlx_plan* plan, const char* name, uint32_t* entry);

typedef struct rlx_tensor_info {
  size_t struct_size;
  const char* name;  // lives as long as the plan
  uint32_t dtype;    // rlx_dtype
  uint32_t rank;
  uint64_t dims[RLX_MAX_RANK];  // outermost first; elements lie densely, row-major
  uint64_t size_bytes;
  uint32_t segment;     // rlx_segment
  uint32_t first_step;  // steps of the entry between which the value lives, inclusive
  uint32_t last_step;
  uint32_t reserved;
} rlx_tensor_info;

// Dims that are free (rlx_plan_get_input_dim) are told at their maximum.
RLX_API rlx_status rlx_plan_get_input(const rlx_plan* plan, uint32_t entry, uint32_t input,
                                      rlx_tensor_info* info);
RLX_API rlx_status rlx_plan_get_output(const rlx_plan* plan, uint32_t entry, uint32_t output,
                                       rlx_tensor_info* info);

// A symbol of the plan's shapes. The value of a free one is chosen for each entry of a session, by
// rlx_session_set_symbol or by the shapes of its inputs.
typedef struct rlx_symbol_info {
  size_t struct_size;
  const char* name;  // lives as long as the plan
  // Of all its ranges together, where a plan has several. A symbol that is not free has its value
  // in both.
  uint64_t minimum;
  uint64_t maximum;
  uint64_t multiple_of;
  uint32_t is_free;  // 0: its value was fixed when the plan was compiled
  uint32_t reserved;
} rlx_symbol_info;

// 0 for NULL.
RLX_API uint32_t rlx_plan_symbol_count(const rlx_plan* plan);
RLX_API rlx_status rlx_plan_get_symbol(const rlx_plan* plan, uint32_t symbol,
                                       rlx_symbol_info* info);

#define RLX_NO_SYMBOL UINT32_MAX

typedef struct rlx_dim_info {
  size_t struct_size;
  uint64_t maximum;  // with every free symbol at its maximum
  uint32_t is_free;  // 1: depends on free symbols
  uint32_t symbol;   // of the plan: the dim is that symbol; RLX_NO_SYMBOL: it is fixed or computed
} rlx_dim_info;

RLX_API rlx_status rlx_plan_get_input_dim(const rlx_plan* plan, uint32_t entry, uint32_t input,
                                          uint32_t axis, rlx_dim_info* info);
RLX_API rlx_status rlx_plan_get_output_dim(const rlx_plan* plan, uint32_t entry, uint32_t output,
                                           uint32_t axis, rlx_dim_info* info);

// States: tensors that a session keeps from run to run. Every session has its own, shared by its
// entries; rlx_session_read_state and the functions behind it reach them. 0 for NULL.
RLX_API uint32_t rlx_plan_state_count(const rlx_plan* plan);
// `segment` is RLX_STATE; states live through all steps of all entries: first_step and last_step
// are 0.
RLX_API rlx_status rlx_plan_get_state(const rlx_plan* plan, uint32_t state, rlx_tensor_info* info);

// What a plan of a language model says of text: tokens, merges, chat templates, in the form of
// schema/text.fbs, which rlx_text.h reads. Bytes of it; 0 for a plan without, and for NULL.
RLX_API uint64_t rlx_plan_text_bytes(const rlx_plan* plan);
// Reads all of it from the plan's file. `size_bytes` is rlx_plan_text_bytes. The bytes are as the
// compiler wrote them (RLX_INVALID_PLAN where their checksum differs), but are not verified
// otherwise.
RLX_API rlx_status rlx_plan_read_text(const rlx_plan* plan, void* data, size_t size_bytes);

// ---- Devices ----

typedef struct rlx_device_info {
  size_t struct_size;
  const char*
      id;  // "vulkan:0", "cuda:0". Strings live as long as the list or device that they came from
  const char* name;    // as the driver says it
  const char* driver;  // name and version
  uint32_t api_version;
  uint32_t subgroup_size;
  uint64_t features;         // mask of features.def
  uint64_t memory_bytes;     // of the device's own memory
  uint64_t available_bytes;  // 0 where the driver does not say
  uint32_t unified_memory;   // 1: the host reaches device memory directly
  uint32_t max_workgroup_invocations;
  uint32_t max_shared_bytes;
  uint32_t max_params_bytes;
  uint32_t max_grid[3];
  uint32_t architecture;  // CUDA: 90 for compute capability 9.0; 0 for other devices
} rlx_device_info;

// Lists what this machine has. No device is no error: the list is then empty and
// rlx_device_list_note says why, naming the package that helps. The null device (checks and copies,
// computes nothing) is not listed; open it as "null".
RLX_API rlx_status rlx_device_list_create(rlx_device_list** list);
RLX_API uint32_t rlx_device_list_count(const rlx_device_list* list);
RLX_API rlx_status rlx_device_list_get(const rlx_device_list* list, uint32_t index,
                                       rlx_device_info* info);
// Why a kind of device is missing, "" if none is. Lives as long as the list.
RLX_API const char* rlx_device_list_note(const rlx_device_list* list);
RLX_API void rlx_device_list_close(rlx_device_list* list);

// Opens "vulkan:0", "vulkan" (the first), "cuda:0", "cuda", or "null". CUDA devices are used
// through their primary context, which the program's other users of CUDA share.
RLX_API rlx_status rlx_device_open(const char* id, rlx_device** device);

// A VkDevice that the program has already. The program keeps it, must have enabled the features
// that its plans need (bufferDeviceAddress and scalarBlockLayout at least; info.features of
// rlx_device_open's device of the same GPU lists what could be), must not destroy it before the
// last session on it is closed, and must not use the queue while a call of a session is in
// progress. Handles are passed as void* so that this header needs no Vulkan headers.
typedef struct rlx_vulkan_handles {
  size_t struct_size;
  void* get_instance_proc_addr;  // PFN_vkGetInstanceProcAddr; NULL: of the system's loader
  void* instance;                // VkInstance
  void* physical_device;         // VkPhysicalDevice
  void* device;                  // VkDevice
  void* queue;                   // VkQueue of a family with compute
  uint32_t queue_family;
  uint32_t reserved;
  uint64_t enabled_features;  // mask of features.def that the program enabled on the device
} rlx_vulkan_handles;

RLX_API rlx_status rlx_device_adopt_vulkan(const rlx_vulkan_handles* handles, rlx_device** device);

// A CUcontext that the program has already, passed as void* so that this header needs no CUDA
// headers. The program keeps it and must not destroy it before the last session on it is closed.
typedef struct rlx_cuda_handles {
  size_t struct_size;
  void* context;  // CUcontext
} rlx_cuda_handles;

RLX_API rlx_status rlx_device_adopt_cuda(const rlx_cuda_handles* handles, rlx_device** device);
RLX_API rlx_status rlx_device_get_info(const rlx_device* device, rlx_device_info* info);
// RLX_OK, or RLX_DEVICE_LOST once any call on the device has met its loss.
RLX_API rlx_status rlx_device_health(const rlx_device* device);
RLX_API void rlx_device_close(rlx_device* device);

// ---- Sessions ----

typedef struct rlx_session_options {
  size_t struct_size;
  uint32_t jobs;     // threads that create pipelines; 0: one per core
  uint32_t profile;  // 1: rlx_session_profile and rlx_session_last_run_microseconds work
  // NULL: none. Used if it fits plan, driver and device; written anew where it does not. A regular
  // file of its own: what lies under the path and is none, a symbolic link too, or begins as no
  // such file does, is neither read nor replaced.
  const char* pipeline_cache_path;
  // 0: none. A plan that needs more on the device is refused before anything is allocated.
  uint64_t memory_budget_bytes;
  // CUDA: a CUstream of the device's context, on which all work of the session is put in order; the
  // program keeps it until the session is closed. NULL: the session makes its own.
  void* cuda_stream;
  // 1: refuse a plan with a product of the device's library for which no algorithm was chosen on
  // this device with this library (rlxc tune), or an entry whose kernels were chosen on another
  // device or driver (rlxc --tune); 0: the library's heuristic then chooses.
  uint32_t require_tuned;
  // 1: a run, and a profile of one, in which an index taken from a tensor (of gather, scatter,
  // embedding, one_hot, a cache's or a rotary embedding's position, a row's expert, the length of a
  // sequence) lies outside after negative ones have counted from the end, ends with
  // RLX_INDEX_OUT_OF_RANGE. The error names the first such step's node, its kernel, and how many.
  // 0, or a plan of format 1.0: such indices are clamped, read as zero or dropped, and nobody is
  // told. No step ever reads or writes outside its tensors; good runs take the same time with 1.
  // So is nobody then where a loop reaches its bound, or a branch is taken that cannot be at these
  // sizes; with 1 such a run ends with RLX_ASSERTION_FAILED.
  uint32_t check_indices;
  // Bindings of free symbols that stay recorded; the one used least recently goes first. 0: 8.
  uint32_t max_bindings;
  // Runs that may be under way at once (rlx_session_submit), at most 1024. 0: 1. More than 1 does
  // not go with check_indices.
  uint32_t queue_depth;
  // Of a plan with several programs for the device's target, the one to run, by its name
  // (rlx_plan_get_target), wherever the device has what it needs. NULL: the best.
  const char* target;
  // NULL: none. A folder in which a file is kept as under pipeline_cache_path for each plan,
  // program, driver and device. Made where it is missing; not used where it is another user's or
  // others may write to it. Not with pipeline_cache_path.
  const char* pipeline_cache_folder;
} rlx_session_options;

// Loads the plan on the device (weights are uploaded once and shared by the sessions that exist at
// the same time) and allocates this session's state, arena and io. `options` may be NULL. States
// start at their initial values.
RLX_API rlx_status rlx_session_create(rlx_plan* plan, rlx_device* device,
                                      const rlx_session_options* options, rlx_session** session);
// Waits for the runs that are under way.
RLX_API void rlx_session_close(rlx_session* session);
// Records an entry, so that its first run takes no longer than the later ones. Optional. With free
// symbols at values that are new to the session, CUDA records while the second run is under way;
// until then it is given kernels one by one.
RLX_API rlx_status rlx_session_prepare(rlx_session* session, uint32_t entry);

typedef struct rlx_tensor {
  size_t struct_size;
  const void* data;     // dense, row-major; any alignment
  uint64_t size_bytes;  // must be what dtype and dims say
  uint32_t dtype;       // rlx_dtype
  uint32_t rank;
  uint64_t dims[RLX_MAX_RANK];
} rlx_tensor;

// Sets a free symbol for the next runs of an entry; at first each is at its maximum. Refused
// outside its range, or, of a plan with a program for each of several ranges, between these.
// Another value than before makes the outputs of earlier runs unreadable, since their shapes are
// those of the present values. All values together take effect with the next call that runs or
// prepares the entry: the first time, its sizes are computed, verified and recorded (about a
// millisecond for 300 steps); the last max_bindings ones of the session are kept. A call that
// refuses them leaves the entry at the values of the last one that did not.
RLX_API rlx_status rlx_session_set_symbol(rlx_session* session, uint32_t entry, const char* name,
                                          uint64_t value);
RLX_API rlx_status rlx_session_get_symbol(const rlx_session* session, uint32_t entry,
                                          const char* name, uint64_t* value);
// An input or output with the dims and bytes that it has at the present values of the symbols.
RLX_API rlx_status rlx_session_get_input(const rlx_session* session, uint32_t entry, uint32_t input,
                                         rlx_tensor_info* info);
RLX_API rlx_status rlx_session_get_output(const rlx_session* session, uint32_t entry,
                                          uint32_t output, rlx_tensor_info* info);

// Copies a tensor from host memory to the input of that name; it stays set for later runs. dtype,
// rank and fixed dims must be the input's own. A dim that is a free symbol sets the symbol, as
// rlx_session_set_symbol does; whether all inputs agree with the symbols is asked when the entry
// runs, so that several can be set one after another in any order. Entries share their input and
// output memory: touching another entry's inputs, or running it, unsets these.
RLX_API rlx_status rlx_session_set_input(rlx_session* session, uint32_t entry, const char* name,
                                         const rlx_tensor* tensor);
// Uses the caller's device memory for an input or output from now on, without copies. Vulkan: the
// VkDeviceAddress of a buffer, CUDA: a CUdeviceptr; 16-byte aligned, at least the tensor's size (of
// one with free dims: the size that it has when the entry runs, or the run is refused).
// Buffers of outputs overlap no other bound buffer. Size 0 gives the tensor back to the session's
// own memory (an input is then unset). The memory must live while runs use it.
RLX_API rlx_status rlx_session_bind_input(rlx_session* session, uint32_t entry, const char* name,
                                          uint64_t device_address, uint64_t size_bytes);
RLX_API rlx_status rlx_session_bind_output(rlx_session* session, uint32_t entry, const char* name,
                                           uint64_t device_address, uint64_t size_bytes);
// Runs the entry and waits for its end. Allocates nothing once the entry is prepared or has run,
// with free symbols once it has run twice at values that are kept. After RLX_INDEX_OUT_OF_RANGE and
// RLX_ASSERTION_FAILED the run has ended and its outputs are there; the next run begins anew.
RLX_API rlx_status rlx_session_run(rlx_session* session, uint32_t entry);
// Starts a run; rlx_session_wait ends it. As many runs as the option queue_depth says are under way
// at most, 1 unless set; a full queue is RLX_INVALID_STATE. They run in the order of their submits,
// each after the end of the one before it, and each with what the inputs, the states and the
// caller's bound memory hold when it begins. While any is under way, calls that set or bind
// inputs, outputs, symbols or states, or read outputs or states, are refused with
// RLX_INVALID_STATE; the session's own outputs are those of the last run once all have ended. The
// caller may write a bound input and read a bound output or state only between the end of one run
// and the submit of the next one that uses it; on the device, in the order that the caller's own
// synchronisation gives it.
RLX_API rlx_status rlx_session_submit(rlx_session* session, uint32_t entry);
// The same, and says the number of the run: runs of a session count from 1, those of
// rlx_session_submit and rlx_session_run too.
RLX_API rlx_status rlx_session_enqueue(rlx_session* session, uint32_t entry, uint64_t* run);
// Waits for the run of that number, with all before it. RLX_OK for one that was waited for before;
// the first failure of those that were not. RLX_TIMEOUT as of rlx_session_wait.
RLX_API rlx_status rlx_session_wait_for(rlx_session* session, uint64_t run,
                                        uint64_t timeout_nanoseconds);
// Waits for all submitted runs. RLX_TIMEOUT after that many nanoseconds: the runs go on, wait
// again. Without a run: RLX_OK.
RLX_API rlx_status rlx_session_wait(rlx_session* session, uint64_t timeout_nanoseconds);
// Copies an output of the finished run to host memory; size_bytes must be the output's present one.
// The copy is whole or not begun.
RLX_API rlx_status rlx_session_read_output(rlx_session* session, uint32_t entry, const char* name,
                                           void* data, uint64_t size_bytes);

// An entry as the session's device runs it, at the present values of free symbols. A plan for
// several targets holds one program per target, or several by what devices have.
typedef struct rlx_program_info {
  size_t struct_size;
  uint32_t target;  // rlx_target
  uint32_t value_count;
  uint32_t step_count;
  uint32_t wave_count;  // groups of steps between which barriers stand
  uint64_t arena_bytes;
  uint64_t arena_lower_bound;  // largest sum of bytes that live at once
  // "vulkan-nvidia": which of the plan's programs (rlx_plan_get_target). Lives as long as the plan.
  const char* name;
} rlx_program_info;

RLX_API rlx_status rlx_session_get_program(const rlx_session* session, uint32_t entry,
                                           rlx_program_info* info);
// Any value of the entry, for rlx_session_read_value. Their names need not be unique. The life of
// an output begins with the first step that writes it.
RLX_API rlx_status rlx_session_get_value(const rlx_session* session, uint32_t entry, uint32_t value,
                                         rlx_tensor_info* info);

typedef struct rlx_step_info {
  size_t struct_size;
  // "matmul"; "copy", "fill" or "library_gemm" for such steps. Strings live as long as the plan.
  const char* kernel;
  const char* node;  // source node, "" where the plan has no debug section
  const char* op;    // its operator, "" likewise
  uint32_t kind;     // rlx_step_kind
  uint32_t wave;
  uint32_t grid[3];
  uint32_t reserved;
  uint64_t bytes_moved;  // least device-memory traffic
  uint64_t flops;
  // Which of the plan's code, or which library, runs the step on this device: "sm_90 cubin". ""
  // where the plan leaves no choice. Lives as long as the session.
  const char* code;
} rlx_step_info;

RLX_API rlx_status rlx_session_get_step(const rlx_session* session, uint32_t entry, uint32_t step,
                                        rlx_step_info* info);

typedef struct rlx_step_time {
  uint32_t step;
  uint32_t reserved;
  double microseconds;  // on the device
} rlx_step_time;

// Runs the entry once with its steps one after another and gives the device time of each. `times`
// has room for `capacity` records, at least the entry's step_count. Needs the option profile.
// States are afterwards what they were before (by way of host memory); refused where the entry
// writes one that is bound to the caller's memory.
RLX_API rlx_status rlx_session_profile(rlx_session* session, uint32_t entry, rlx_step_time* times,
                                       uint32_t capacity, uint32_t* count);
// Device time of the last run, once none is under way, in microseconds. Needs the option profile.
RLX_API rlx_status rlx_session_last_run_microseconds(const rlx_session* session,
                                                     double* microseconds);
// Sets all states to their initial values but those bound to the caller's memory, which keep what
// they hold.
RLX_API rlx_status rlx_session_reset_states(rlx_session* session);

// Seed and step of the session's random numbers: the next run draws by this step, each run after it
// by one more (modulo 2^32), so that equal seeds and steps give equal bits on every device. Every
// seed is legal; both are 0 at first and after rlx_session_reset_states. They are states of the
// plan, "rlx.random.seed" and "rlx.random.step". Refused for a plan that draws nothing by them.
RLX_API rlx_status rlx_session_set_seed(rlx_session* session, uint64_t seed, uint32_t step);

// Indices [begin, begin + count) of one axis of a state, all of its other axes.
typedef struct rlx_state_range {
  size_t struct_size;
  uint32_t axis;
  uint32_t reserved;
  uint64_t begin;
  uint64_t count;
} rlx_state_range;

// Copies a state, or the range of it where `range` is not NULL, to host memory: dense, row-major,
// with the state's dims but `count` for that of the range's axis. size_bytes must be what these
// say. Along the last axis of a dtype of blocks, ranges are whole blocks. One copy per index of the
// axes before the range's one: ranges of outer axes are read fastest.
//
// Refused while a run is under way, as the functions below are, and for a state that is bound to
// the caller's memory. An unknown name's error lists those that exist.
RLX_API rlx_status rlx_session_read_state(rlx_session* session, const char* name,
                                          const rlx_state_range* range, void* data,
                                          uint64_t size_bytes);
// The other way: dtype, rank and dims of the tensor must be those of the state, or of the range.
// What the call refuses changes nothing; a copy that fails on the device may have written a part.
RLX_API rlx_status rlx_session_write_state(rlx_session* session, const char* name,
                                           const rlx_state_range* range, const rlx_tensor* tensor);
// Copies a state from another session of the same plan handle on the same device handle, where no
// run is under way either; on the device, whole. No other thread may be in a call of either
// session.
RLX_API rlx_status rlx_session_copy_state(rlx_session* session, const char* name,
                                          rlx_session* from);
// Uses the caller's device memory for a state from now on, in all entries: what it holds is the
// state. An address as of rlx_session_bind_input, but a multiple of 256; at least the state's size;
// no byte of another bound buffer. Size 0 gives the state back to the session's own memory, with
// what that held last. Entries that use the state are recorded anew. Vulkan refuses a state that
// steps copy or fill.
RLX_API rlx_status rlx_session_bind_state(rlx_session* session, const char* name,
                                          uint64_t device_address, uint64_t size_bytes);
// For debugging: runs the entry up to and including `step` and copies a value that lives then;
// outputs are invalid afterwards, states are what they were before, as with rlx_session_profile.
// Does not report indices that lie outside.
RLX_API rlx_status rlx_session_read_value(rlx_session* session, uint32_t entry, uint32_t step,
                                          uint32_t value, void* data, uint64_t size_bytes);
// For tests: fills the arena with a byte, to show that no run reads what an earlier one left there.
RLX_API rlx_status rlx_session_poison_arena(rlx_session* session, uint8_t pattern);

#ifdef __cplusplus
}

template <class Struct>
inline Struct rlx_init_struct() {
  Struct zeroed = Struct();
  zeroed.struct_size = sizeof(Struct);
  return zeroed;
}
#endif

#endif
